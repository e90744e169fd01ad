"""Many wake-ups and returns to zero: what the platform holds at zero must be what it held before."""

import asyncio
import time
from dataclasses import dataclass, replace

from benchmarks import usage
from benchmarks.area import Bench
from benchmarks.box import Box, running_box
from benchmarks.rows import Row, at_most

_BODY = {"message": "hello"}
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


async def measure(bench: Bench) -> list[Row]:
    num_warm, num_wakes, num_windows = bench.choose((50, 1000, 20), (20, 100, 2))
    async with running_box(bench.home, "handlers.echo", "benchmarks.functions.brief:brief") as box:
        await _by_command(box, num_warm)
        await _by_window(box, 1)
        before = await _calm(box)
        await _by_command(box, num_wakes)
        after = await _calm(box)
        await _by_window(box, num_windows)
        in_the_end = await _calm(box)
    return [
        *_growth(f"{num_wakes:,} wake-ups by command", before, after),
        # Against the beginning, too: one connection more or less is open at any moment.
        *_growth(f"with {num_windows} wake-ups by window", before, in_the_end),
        Row("platform with zygotes at zero: PSS", in_the_end.memory.pss_bytes / 2**20, "MiB"),
    ]


async def _by_command(box: Box, num: int) -> None:
    """Wake up and scale to zero by command."""
    async with box.caller("echo", _BODY) as caller:
        for _ in range(num):
            await caller.wake()
            await box.scale("echo", 0)


async def _by_window(box: Box, num: int) -> None:
    """Wake up, and wait until the function is at zero by itself."""
    async with box.caller("brief", _BODY) as caller:
        for _ in range(num):
            await caller.wake()
            await box.until_instances("brief", 0)


async def _calm(box: Box) -> Holdings:
    """Return what the platform holds once its numbers have stood still for two seconds; parked workers come and go."""
    gives_up_at = time.monotonic() + _CALM_WITHIN_S
    last, num_same = Holdings.of(box), 0
    while num_same < _CALM_LOOKS and time.monotonic() < gives_up_at:
        await asyncio.sleep(_LOOK_EVERY_S)
        now = Holdings.of(box)
        num_same = num_same + 1 if now == replace(last, memory=now.memory) else 0
        last = now
    return last


def _growth(what: str, before: Holdings, after: Holdings) -> list[Row]:
    memory_growth = (after.memory.unfiled_bytes / before.memory.unfiled_bytes - 1) * 100
    return [
        Row(f"{what}: more processes", after.num_processes - before.num_processes, "", at_most(0)),
        Row(f"{what}: more threads", after.num_threads - before.num_threads, "", at_most(0)),
        Row(f"{what}: more descriptors", after.num_descriptors - before.num_descriptors, "", at_most(0)),
        Row(f"{what}: more memory", memory_growth, "%", at_most(_MOST_MEMORY_GROWTH)),
    ]
