"""A start of the handler the plain way, `import torch` alone, and a call that wakes the same handler from zero."""

import asyncio
import json
import time
from asyncio.subprocess import Process
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from benchmarks.area import Bench
from benchmarks.box import Box, Caller, running_box
from benchmarks.processes import script
from benchmarks.rows import Row, at_least
from loadgen.sample import Sample

SENTENCE = "a sentence to warm up with"
_REST_S = 0.3  # a function that was at zero for a while is woken, and no clearing away is measured with it
_WHILE_HELD = ("fork", "import", "thaw", "setup", "warmup")
_AT_LEAST_OF_PLAIN = 40.0
_AT_LEAST_OF_IMPORT_TORCH = 12.0


@dataclass(frozen=True)
class Start:
    """One way to a first answer: milliseconds in all, as the caller sees it, and of each phase in its order."""

    total_ms: float
    phases_ms: dict[str, float]

    @property
    def rest_ms(self) -> float:
        """What no phase accounts for."""
        return self.total_ms - sum(self.phases_ms.values())


@dataclass(frozen=True)
class Starts:
    """Starts that were measured in turns. `first` is the first wake-up after the platform came up, apart."""

    first: Start
    plain: list[Start] = field(default_factory=list)
    import_torch_ms: list[float] = field(default_factory=list)
    woken: list[Start] = field(default_factory=list)


async def measure(bench: Bench) -> list[Row]:
    num_rounds, num_wakes_each = bench.choose((5, 8), (1, 5))
    async with running_box(bench.home, "handlers.embed") as box:
        found = await compare(box, "embed", num_rounds, num_wakes_each)
    return _rows(found)


async def compare(box: Box, name: str, num_rounds: int, num_wakes_each: int) -> Starts:
    """Start the plain way once, import torch once and wake up several times, in each of several rounds.

    The platform has made its snapshot from the same handler before: to all of them files are in the page cache and
    modules compiled.
    """
    async with box.caller(name, SENTENCE) as caller:
        await box.scale(name, 0)
        found = Starts(first=woken(await caller.wake()))
        for _ in range(num_rounds):
            found.plain.append(await plain_start())
            found.import_torch_ms.append(await _import_torch_ms())
            found.woken.extend([await wake(box, caller, name) for _ in range(num_wakes_each)])
    return found


async def plain_start() -> Start:
    """Start a fresh interpreter and return how long it took to the first answer, less the decorator's import."""
    began_at = time.monotonic()
    async with script("-m", "benchmarks.plain.embed", repr(began_at)) as process:
        assert process.stdout is not None
        line = await process.stdout.readline()
        total_ms = (time.monotonic() - began_at) * 1e3
        await _ended_well(process)
    phases_ms = json.loads(line)
    return Start(total_ms - phases_ms.pop("decorator"), phases_ms)


async def _import_torch_ms() -> float:
    began_at = time.monotonic()
    async with script("-c", "import torch") as process:
        await _ended_well(process)
    return (time.monotonic() - began_at) * 1e3


async def _ended_well(process: Process) -> None:
    if await process.wait() != 0:
        raise RuntimeError(f"a plain start ended with status {process.returncode}")


async def wake(box: Box, caller: Caller, name: str) -> Start:
    """Bring a function to zero, and call it after a short rest."""
    await box.scale(name, 0)
    await asyncio.sleep(_REST_S)
    return woken(await caller.wake())


def woken(sample: Sample) -> Start:
    """Return the start that an answer reports. The activator's time includes the phases of the start."""
    left = dict(sample.phases_ms)
    phases = {name: left.pop(name) for name in _WHILE_HELD if name in left}
    phases["held besides"] = left.pop("activate") - sum(phases.values())
    return Start((sample.done_at - sample.sent_at) * 1e3, phases | left)


def median_phases_ms(starts: Iterable[Start]) -> dict[str, float]:
    """Return the median of each phase over several starts, and of what no phase accounts for."""
    starts = list(starts)
    names = dict.fromkeys(name for start in starts for name in start.phases_ms)
    phases = {name: median(start.phases_ms.get(name, 0.0) for start in starts) for name in names}
    return phases | {"the rest": median(start.rest_ms for start in starts)}


def median_ms(starts: Iterable[Start]) -> float:
    """Return the median of the whole."""
    return median(start.total_ms for start in starts)


def _rows(found: Starts) -> list[Row]:
    plain_ms, woken_ms, torch_ms = median_ms(found.plain), median_ms(found.woken), median(found.import_torch_ms)
    return [
        Row("plain start to the first answer, p50", plain_ms, "ms"),
        *(Row(f"plain start: {name}", ms, "ms") for name, ms in median_phases_ms(found.plain).items()),
        Row("import torch alone, p50", torch_ms, "ms"),
        Row("first wake-up of the platform", found.first.total_ms, "ms"),
        Row("woken from zero, p50", woken_ms, "ms"),
        *(Row(f"woken from zero: {name}", ms, "ms") for name, ms in median_phases_ms(found.woken).items()),
        Row("plain start over woken from zero", plain_ms / woken_ms, "times", at_least(_AT_LEAST_OF_PLAIN)),
        Row("import torch over woken from zero", torch_ms / woken_ms, "times", at_least(_AT_LEAST_OF_IMPORT_TORCH)),
    ]
