"""Requests that arrive while instances come and go: each must be answered."""

import asyncio
import random

import loadgen
from benchmarks.area import Bench
from benchmarks.box import Box, running_box
from benchmarks.rows import Row, at_most

_NAME = "slow"
_RATE_PER_S = 40.0
_MOST_INSTANCES = 3
_SEED = 11


async def measure(bench: Bench) -> list[Row]:
    num_requests, num_transitions = bench.choose((2000, 100), (200, 10))
    async with running_box(bench.home, "benchmarks.functions.brief:slow") as box:
        workload = loadgen.Workload.json(box.url_of(_NAME), range(100))
        load = loadgen.OpenLoop(rate_per_s=_RATE_PER_S, arrivals="poisson")
        running = asyncio.create_task(loadgen.run(load, workload, num_requests=num_requests, seed=_SEED))
        try:
            await _change(box, num_transitions, num_requests / _RATE_PER_S)
            num_in_time = num_transitions if not running.done() else 0
            report = await running
        finally:
            running.cancel()
    return _rows(report, num_in_time)


async def _change(box: Box, num: int, duration_s: float) -> None:
    """Go to another number of instances, 0 among them, at `num` random moments of nine tenths of the run."""
    dice = random.Random(_SEED)
    began_at, now = asyncio.get_running_loop().time(), 0
    for due_s in sorted(dice.uniform(0, 0.9 * duration_s) for _ in range(num)):
        await asyncio.sleep(max(0.0, began_at + due_s - asyncio.get_running_loop().time()))
        now = dice.choice([other for other in range(_MOST_INSTANCES + 1) if other != now])
        await box.scale(_NAME, now)


def _rows(report: loadgen.Report, num_transitions: int) -> list[Row]:
    num_lost = report.num_offered - report.statuses.get(200, 0)
    assert report.latency is not None
    return [
        Row("requests that arrived while instances came and went", report.num_offered),
        Row("transitions meanwhile", num_transitions),
        Row("requests that woke the function", report.num_cold),
        Row("requests not answered with 200", num_lost, "", at_most(0)),
        Row("p50 of these requests", report.latency.p50_ms, "ms"),
        Row("longest of these requests", report.latency.max_ms, "ms"),
    ]
