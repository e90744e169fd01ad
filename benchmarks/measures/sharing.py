"""What one and what many processes hold that have thawed one snapshot and answered."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks import usage
from benchmarks.area import Bench
from benchmarks.processes import script
from benchmarks.rows import Row, at_most
from benchmarks.trials import bring_into_cache, files
from benchmarks.usage import Memory

MIB = 2**20
_NUM = 8
_MOST_MORE_PRIVATE = 5.0  # percent
_MOST_PSS_A_PROCESS = 2.0  # percent of the weights


@dataclass(frozen=True)
class Held:
    """The memory of each process that thawed, and of the one that they were forked from, whose imports they share."""

    processes: list[Memory]
    parent: Memory

    @property
    def pss_bytes(self) -> int:
        """PSS of all, added up."""
        return self.parent.pss_bytes + sum(one.pss_bytes for one in self.processes)

    @property
    def most_private_dirty_bytes(self) -> int:
        """Private_Dirty of the process that has the most."""
        return max(one.private_dirty_bytes for one in self.processes)


async def measure(bench: Bench) -> list[Row]:
    folder = await files(bench, "full")  # in a quick run too: a share of small weights says nothing
    weights_bytes = sum(path.stat().st_size for path in (folder / "snapshot").glob("*.safetensors"))
    await asyncio.to_thread(bring_into_cache, folder / "snapshot")
    one, many = await look(folder, 1), await look(folder, _NUM)
    more_private = (many.most_private_dirty_bytes / one.most_private_dirty_bytes - 1) * 100
    growth_bytes = (many.pss_bytes - one.pss_bytes) / (_NUM - 1)
    return [
        Row("Private_Dirty of 1 process", one.most_private_dirty_bytes / MIB, "MiB"),
        Row(f"Private_Dirty of each of {_NUM}, the most", many.most_private_dirty_bytes / MIB, "MiB"),
        Row(f"Private_Dirty of each of {_NUM} over 1, more", more_private, "%", at_most(_MOST_MORE_PRIVATE)),
        Row("PSS of 1 process, and the one it was forked from", one.pss_bytes / MIB, "MiB"),
        Row(f"PSS of {_NUM}, and the one they were forked from", many.pss_bytes / MIB, "MiB"),
        Row(
            "PSS of each further process, of the weights",
            growth_bytes / weights_bytes * 100,
            "%",
            at_most(_MOST_PSS_A_PROCESS),
        ),
    ]


async def look(folder: Path, num: int) -> Held:
    """Have `num` forks of one process thaw and answer, and return what they hold."""
    async with script("-m", "benchmarks.loading", "share", str(folder), str(num), OMP_NUM_THREADS="1") as process:
        assert process.stdout is not None
        if not (line := await process.stdout.readline()):
            raise RuntimeError("the processes that were to share a snapshot have ended")
        return Held([usage.memory([pid]) for pid in json.loads(line)], usage.memory([process.pid]))
