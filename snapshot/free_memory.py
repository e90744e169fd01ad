"""How much memory a process may still take."""

from pathlib import Path, PurePosixPath

_MEMORY_OF_THE_MACHINE = "MemAvailable:"
_GIVEN_BACK = ("inactive_file", "active_file", "slab_reclaimable")  # of a group's memory, what the kernel can take


def available_bytes(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """The least of what the machine and each control group (v2) above this process can still give, in bytes."""
    available = of_machine((proc / "meminfo").read_text())
    try:
        membership = (proc / "self" / "cgroup").read_text()
    except OSError:
        return available
    for group in _and_above(membership):
        folder = groups / group
        try:
            texts = [(folder / name).read_text() for name in ("memory.max", "memory.current", "memory.stat")]
        except OSError:  # the root has no limit, and a container may not see what is above it
            continue
        available = min(available, of_group(*texts, otherwise=available))
    return available


def of_machine(meminfo: str) -> int:
    """What /proc/meminfo says can be had without swapping."""
    line = next(line for line in meminfo.splitlines() if line.startswith(_MEMORY_OF_THE_MACHINE))
    return int(line.split()[1]) * 1024


def of_group(limit: str, current: str, stat: str, *, otherwise: int) -> int:
    """What the files memory.max, memory.current and memory.stat say is left; `otherwise` where there is no limit."""
    if limit.strip() == "max":
        return otherwise
    fields = dict(line.split() for line in stat.splitlines())
    given_back = sum(int(fields.get(name, 0)) for name in _GIVEN_BACK)
    return max(0, int(limit) - int(current) + given_back)


def _and_above(membership: str) -> list[str]:
    """The group that /proc/self/cgroup names and those above it, relative to the mount, the root last."""
    for line in membership.splitlines():
        if line.startswith("0::/"):
            path = PurePosixPath(line.removeprefix("0::/"))
            return [str(path), *map(str, path.parents)]
    return []
