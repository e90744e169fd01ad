"""How much memory a process takes, from /proc/PID/smaps_rollup: the kernel walks its pages for it, in milliseconds."""

from dataclasses import dataclass

_KIB = 1024


@dataclass(frozen=True)
class Memory:
    """`pss_bytes` counts of each page the process's share of it, `private_bytes` only pages that nobody shares."""

    pss_bytes: int = 0
    private_bytes: int = 0

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(self.pss_bytes + other.pss_bytes, self.private_bytes + other.private_bytes)


def parse(rollup: str) -> Memory:
    """Return what the text of an smaps_rollup says."""
    kib: dict[str, int] = {}
    for line in rollup.splitlines()[1:]:
        name, _, value = line.partition(":")
        kib[name] = int(value.split()[0])
    private = kib["Private_Clean"] + kib["Private_Dirty"]
    return Memory(kib["Pss"] * _KIB, private * _KIB)


def read(pid: int) -> Memory:
    """Return the memory of a process; none where it has ended or is not ours to look at."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            return parse(rollup.read())
    except OSError:
        return Memory()
