"""What a platform and all its processes hold, and by how much it has grown."""

import asyncio
import time
from dataclasses import dataclass, replace

from benchmarks import usage
from benchmarks.box import Box
from benchmarks.rows import Row, at_most

_MOST_MEMORY_GROWTH = 3.0  # percent; the allocator's own play is 1 or 2
_LOOK_EVERY_S = 0.25  # /proc tells when asked only
_CALM_LOOKS = 8
_CALM_WITHIN_S = 30.0


@dataclass(frozen=True)
class Holdings:
    """What the platform and all its processes hold."""

    num_processes: int
    num_threads: int
    num_descriptors: int
    memory: usage.Memory

    @classmethod
    def of(cls, box: Box) -> "Holdings":
        """Return what is held at this moment."""
        pids = box.server.pids
        return cls(len(pids), usage.num_threads(pids), usage.num_descriptors(pids), usage.memory(pids))

    def growth_since(self, before: "Holdings", what: str) -> list[Row]:
        """Return by how much more is held than before `what`: of nothing that is counted more, of memory a little."""
        memory_growth = (self.memory.unfiled_bytes / before.memory.unfiled_bytes - 1) * 100
        return [
            Row(f"{what}: more processes", self.num_processes - before.num_processes, "", at_most(0)),
            Row(f"{what}: more threads", self.num_threads - before.num_threads, "", at_most(0)),
            Row(f"{what}: more descriptors", self.num_descriptors - before.num_descriptors, "", at_most(0)),
            Row(f"{what}: more memory", memory_growth, "%", at_most(_MOST_MEMORY_GROWTH)),
        ]


async def calm(box: Box) -> Holdings:
    """Return what the platform holds once its numbers have stood still for two seconds; parked workers come and go."""
    gives_up_at = time.monotonic() + _CALM_WITHIN_S
    last, num_same = Holdings.of(box), 0
    while num_same < _CALM_LOOKS and time.monotonic() < gives_up_at:
        await asyncio.sleep(_LOOK_EVERY_S)
        now = Holdings.of(box)
        num_same = num_same + 1 if now == replace(last, memory=now.memory) else 0
        last = now
    return last
