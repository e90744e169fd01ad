"""Versions promoted and rolled back under load: nobody fails, nobody is answered by a version that was withdrawn."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import median
from time import monotonic

import aiohttp

from benchmarks import usage
from benchmarks.area import Bench
from benchmarks.box import Box, running_box
from benchmarks.functions.numbered import NUMBER
from benchmarks.processes import own_places, script
from benchmarks.rows import Row, at_most

_NAME = "numbered"
_TARGET = "benchmarks.functions.numbered:Numbered"
_NUM_CALLERS = 8
_NUM_SWAPS = 20
_BETWEEN_S = 0.25
"""Between a swap and the next, for answers of the one before to be seen, were there any."""

_MOST_GROWTH_MIB = 4.0
"""Half of what one version that stays behind would hold."""

_MIB = 2**20


@dataclass
class Callers:
    """Callers who go on and on. `promoted` is what may answer a call that is sent now: two while that changes."""

    promoted: frozenset[int]
    num_answers: int = 0
    num_failed: int = 0
    num_withdrawn: int = 0
    failures: set[str] = field(default_factory=set)

    async def call(self, session: aiohttp.ClientSession, url: str) -> None:
        """Call until cancelled. What is promoted when the answer comes counts too, since it may change meanwhile."""
        while True:
            allowed = self.promoted
            async with session.post(url, json=0) as response:
                said = await response.text()
            allowed |= self.promoted
            self.num_answers += 1
            if response.status != 200:
                self.num_failed += 1
                self.failures.add(said[:200])
            elif int(said) not in allowed or response.headers["X-Model-Version"] != said:
                self.num_withdrawn += 1


async def measure(bench: Bench) -> list[Row]:
    for number in (1, 2):
        await _make(bench, number)
    num_swaps = bench.choose(_NUM_SWAPS, 6)
    async with running_box(bench.home, _TARGET) as box:
        await _promote(box, 1)
        async with _calling(box, Callers(frozenset({1}))) as callers:
            took_ms: list[float] = []
            await _swap(box, callers, num_swaps // 2, took_ms)  # what grows once has grown by then
            before_mib = await _held_mib(box)
            await _swap(box, callers, num_swaps, took_ms)
            grown_mib = await _held_mib(box) - before_mib
    if callers.failures:
        print(*callers.failures, sep="\n")
    return [
        Row("swap: requests", callers.num_answers),
        Row("swap: promoted or rolled back", len(took_ms)),
        Row("swap: time of one, p50", median(took_ms), "ms"),
        Row("swap: requests that failed", callers.num_failed, "", at_most(0)),
        Row("swap: answers of a version that was withdrawn", callers.num_withdrawn, "", at_most(0)),
        Row(f"swap: memory after {num_swaps} more", grown_mib, "MiB", at_most(_MOST_GROWTH_MIB)),
    ]


async def _make(bench: Bench, number: int) -> None:
    variables = own_places(bench.home) | {NUMBER: str(number)}
    arguments = ("-m", "faas.cli.main", "snapshot", "create", _TARGET, "--version", str(number))
    async with script(*arguments, **variables) as process:
        if await process.wait() != 0:
            raise RuntimeError(f"making version {number} ended with status {process.returncode}")


@asynccontextmanager
async def _calling(box: Box, callers: Callers) -> AsyncIterator[Callers]:
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as running:
        tasks = [running.create_task(callers.call(session, box.url_of(_NAME))) for _ in range(_NUM_CALLERS)]
        try:
            yield callers
        finally:
            for task in tasks:
                task.cancel()


async def _swap(box: Box, callers: Callers, num: int, took_ms: list[float]) -> None:
    """Promote version 2, roll back to version 1, and so on."""
    for turn in range(num):
        to = 1 if turn % 2 else 2
        callers.promoted = frozenset({1, 2})
        began_at = monotonic()
        await (_promote(box, 2) if to == 2 else _post(box, f"/functions/{_NAME}/rollback", {}))
        took_ms.append((monotonic() - began_at) * 1e3)
        callers.promoted = frozenset({to})
        await asyncio.sleep(_BETWEEN_S)


async def _promote(box: Box, number: int) -> None:
    await _post(box, f"/functions/{_NAME}/versions/label", {"version": number})


async def _post(box: Box, path: str, body: dict[str, int]) -> None:
    async with box.control.post(f"http://control{path}", json=body) as response:
        if response.status != 200:
            raise RuntimeError(f"{path} {body}: {response.status}, {await response.text()}")


async def _held_mib(box: Box) -> float:
    pids = [made["pid"] for made in await box.instances(_NAME)]
    return usage.memory(pids).unfiled_bytes / _MIB
