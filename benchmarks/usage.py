"""What processes use, read from /proc: CPU time, memory, descriptors, threads; and which processes belong together."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_GONE = (FileNotFoundError, ProcessLookupError)  # between the listing and the reading, a process may end


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one or several processes. PSS counts a page that n processes share as 1/n for each.

    `unfiled_bytes` is the part of PSS that no file holds: unlike the rest, it is the same whoever else on the machine
    maps the same libraries.
    """

    pss_bytes: int = 0
    private_dirty_bytes: int = 0
    unfiled_bytes: int = 0

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def tree(root: int) -> list[int]:
    """Return `root` and all its living descendants."""
    children: dict[int, list[int]] = {}
    for pid in _processes():
        with suppress(*_GONE):
            children.setdefault(_parent(pid), []).append(pid)
    found = [root]
    for pid in found:  # grows as it is read
        found.extend(children.get(pid, ()))
    return found


def with_variable(name: str, value: str) -> list[int]:
    """Return the processes that were started with this environment variable, in whatever tree they are now."""
    wanted = f"{name}={value}".encode()
    found = []
    for pid in _processes():
        with suppress(PermissionError, *_GONE):
            if wanted in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU seconds that these processes have used so far, and the children that they have waited for.

    The kernel counts them to 10 ms: take the difference over a second or more.
    """
    total = 0.0
    for pid in pids:
        with suppress(*_GONE):
            total += sum(map(int, _stat(pid)[11:15])) / _TICKS_PER_S  # utime, stime, cutime, cstime
    return total


def age_s(pid: int) -> float:
    """Return how long ago a process was started; 0.0 when it has ended."""
    with suppress(*_GONE):
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(_stat(pid)[19]) / _TICKS_PER_S
    return 0.0


def memory(pids: Iterable[int]) -> Memory:
    """Return the memory of these processes, added up."""
    total = Memory()
    for pid in pids:
        with suppress(*_GONE):
            total += parse_rollup((_PROC / str(pid) / "smaps_rollup").read_text())
    return total


def parse_rollup(text: str) -> Memory:
    """Read what the kernel writes into `smaps_rollup`."""
    fields = (line.partition(":") for line in text.splitlines()[1:])
    held_bytes = {name: int(rest.split()[0]) * 1024 for name, _, rest in fields}
    return Memory(held_bytes["Pss"], held_bytes["Private_Dirty"], held_bytes["Pss_Anon"] + held_bytes["Pss_Shmem"])


def num_descriptors(pids: Iterable[int]) -> int:
    """Return how many descriptors these processes have open."""
    return sum(len(os.listdir(_PROC / str(pid) / "fd")) for pid in pids)


def num_threads(pids: Iterable[int]) -> int:
    """Return how many threads these processes have."""
    return sum(int(_stat(pid)[17]) for pid in pids)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on; the second is a name that may hold anything."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
