"""What one and what many processes hold that have thawed one snapshot and answered."""

import json
from pathlib import Path

from benchmarks import usage
from benchmarks.area import Bench
from benchmarks.processes import script
from benchmarks.rows import Row, at_most
from benchmarks.trials import files
from benchmarks.usage import Memory

MIB = 2**20
_NUM = 8
_MOST_MORE_PRIVATE = 5.0  # percent
_MOST_PSS_A_PROCESS = 2.0  # percent of the weights


async def measure(bench: Bench) -> list[Row]:
    folder = await files(bench, "full")  # in a quick run too: a share of small weights says nothing
    weights_bytes = sum(path.stat().st_size for path in (folder / "snapshot").glob("*.safetensors"))
    [one] = await _held(folder, 1)
    many = await _held(folder, _NUM)
    most_private = max(held.private_dirty_bytes for held in many)
    growth = (sum(held.pss_bytes for held in many) - one.pss_bytes) / (_NUM - 1)
    return [
        Row("Private_Dirty of 1 process", one.private_dirty_bytes / MIB, "MiB"),
        Row(f"Private_Dirty of each of {_NUM}, the most", most_private / MIB, "MiB"),
        Row(
            f"the most of {_NUM} over 1, more",
            (most_private / one.private_dirty_bytes - 1) * 100,
            "%",
            at_most(_MOST_MORE_PRIVATE),
        ),
        Row("PSS of 1 process", one.pss_bytes / MIB, "MiB"),
        Row(f"PSS of {_NUM} in sum", sum(held.pss_bytes for held in many) / MIB, "MiB"),
        Row(
            "PSS of each further process, of the weights",
            growth / weights_bytes * 100,
            "%",
            at_most(_MOST_PSS_A_PROCESS),
        ),
    ]


async def _held(folder: Path, num: int) -> list[Memory]:
    """Have `num` forks of one process thaw and answer, and return what each holds."""
    async with script("-m", "benchmarks.loading", "share", str(folder), str(num), OMP_NUM_THREADS="1") as process:
        assert process.stdout is not None
        if not (line := await process.stdout.readline()):
            raise RuntimeError("the processes that were to share a snapshot have ended")
        return [usage.memory([pid]) for pid in json.loads(line)]
