"""Real sentences through a real model at several numbers of callers: joined in batches, and one by one."""

from dataclasses import dataclass, field
from statistics import median

import loadgen
from benchmarks.area import Bench
from benchmarks.load import closed
from benchmarks.rows import Row, at_least, at_most
from benchmarks.sentences import sentences
from benchmarks.served import Served, faas_serve, together

CALLERS = (1, 8, 32)
_LEAST_MODEL_SHARE = 0.93
_MOST_LONE_WAIT_MS = 2.0
_MODEL_CPU = "faas_model_cpu_seconds_total"


@dataclass(frozen=True)
class Side:
    """The rounds of one server at one number of callers."""

    per_s: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    batch_size: list[float] = field(default_factory=list)
    model_share: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """The same callers on a server that batches and on one that does not."""

    batched: Side = field(default_factory=Side)
    unbatched: Side = field(default_factory=Side)


async def measure(bench: Bench) -> list[Row]:
    num_rounds, round_s = bench.choose((10, 3.0), (3, 1.0))
    found = await compare(bench, num_rounds, round_s)
    return [row for num_callers, comparison in found.items() for row in _rows(num_callers, comparison)]


async def compare(bench: Bench, num_rounds: int, round_s: float) -> dict[int, Comparison]:
    """Load both servers in turns, at each number of callers."""
    found = {num_callers: Comparison() for num_callers in CALLERS}
    body = sentences()[0]
    async with together(
        faas_serve("handlers.embed", bench.home, body),
        faas_serve("benchmarks.functions.unbatched", bench.home, body),
    ) as (batched, unbatched):
        for _ in range(num_rounds):
            for num_callers, comparison in found.items():
                await _round(batched, comparison.batched, num_callers, round_s)
                await _round(unbatched, comparison.unbatched, num_callers, round_s)
    return found


async def _round(served: Served, side: Side, num_callers: int, round_s: float) -> None:
    workload = loadgen.Workload.json(served.url, sentences())
    model_before_s = await served.metric(_MODEL_CPU)  # /metrics costs the server CPU: read outside of the load
    load = await closed(served.server, workload, num_callers, round_s)
    model_s = await served.metric(_MODEL_CPU) - model_before_s
    side.per_s.append(load.per_s)
    side.p50_ms.append(load.p50_ms)
    side.batch_size.append(load.report.mean_batch_size or 1.0)
    side.model_share.append(model_s / load.cpu_s)


def _rows(num_callers: int, found: Comparison) -> list[Row]:
    at = f"{num_callers} caller{'s' if num_callers > 1 else ''}"
    batched, unbatched = found.batched, found.unbatched
    share_bar = at_least(_LEAST_MODEL_SHARE) if num_callers > 1 else None
    rows = [
        Row(f"{at}: items a second, batched", median(batched.per_s), "1/s"),
        Row(f"{at}: items a second, unbatched", median(unbatched.per_s), "1/s"),
        Row(f"{at}: mean batch", median(batched.batch_size), "items"),
        Row(f"{at}: model CPU over server CPU, batched", median(batched.model_share), "", share_bar),
        Row(f"{at}: model CPU over server CPU, unbatched", median(unbatched.model_share)),
        Row(f"{at}: p50, batched", median(batched.p50_ms), "ms"),
        Row(f"{at}: p50, unbatched", median(unbatched.p50_ms), "ms"),
    ]
    if num_callers == 1:
        waits_ms = [ours - bare for ours, bare in zip(batched.p50_ms, unbatched.p50_ms, strict=True)]
        rows.append(Row(f"{at}: p50, batched less unbatched", median(waits_ms), "ms", at_most(_MOST_LONE_WAIT_MS)))
    return rows
