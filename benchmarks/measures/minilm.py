"""MiniLM under several numbers of callers: how much of the server's CPU is the model's, here and at others'."""

from dataclasses import dataclass, field
from statistics import median

import loadgen
from benchmarks.area import Bench
from benchmarks.load import UnansweredError, closed
from benchmarks.rivals import RIVALS, Running, missing, rival, title
from benchmarks.rows import Row, at_least, at_most
from benchmarks.sentences import sentences
from benchmarks.served import Served, faas_serve

_CALLERS = (1, 8, 32, 128)
_LEAST_MODEL_SHARE = 0.95
_MOST_FRAMEWORK_MS = 0.5
_MOST_LONE_WAIT_MS = 1.0
_MODEL_CPU = "faas_model_cpu_seconds_total"


@dataclass
class Side:
    """The rounds of one server at one number of callers: CPU of server and model, in seconds, items and waits."""

    cpu_s: list[float] = field(default_factory=list)
    model_s: list[float] = field(default_factory=list)
    num_items: list[int] = field(default_factory=list)
    wait_ms: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)

    @property
    def model_share(self) -> float:
        """CPU of the model over that of the server."""
        return median(model / cpu for model, cpu in zip(self.model_s, self.cpu_s, strict=True))

    @property
    def framework_ms(self) -> float:
        """CPU of the server that is not the model's, for each item."""
        rounds = zip(self.model_s, self.cpu_s, self.num_items, strict=True)
        return median((cpu - model) / num * 1e3 for model, cpu, num in rounds)


Sides = dict[int, Side]


async def measure(bench: Bench) -> list[Row]:
    num_rounds, round_s = bench.choose((5, 3.0), (2, 1.5))
    ours = await _ours(bench, num_rounds, round_s)
    theirs = {name: await _theirs(bench, name, bench.choose(4.0, 1.5)) for name in RIVALS}
    rows = [row for num_callers in _CALLERS for row in _rows(num_callers, ours, theirs)]
    return rows + [missing(name, "MiniLM") for name, sides in theirs.items() if sides is None]


async def _ours(bench: Bench, num_rounds: int, round_s: float) -> Sides:
    sides = {num_callers: Side() for num_callers in _CALLERS}
    async with faas_serve("handlers.embed", bench.home, sentences()[0]) as served:
        for _ in range(num_rounds):
            for num_callers, side in sides.items():
                before_s = await served.metric(_MODEL_CPU)  # /metrics costs the server CPU: read outside of the load
                report = await _load(served, loadgen.Workload.json(served.url, sentences()), num_callers, round_s, side)
                side.model_s.append(await served.metric(_MODEL_CPU) - before_s)
                side.wait_ms.append(report.phases["queue"].p99_ms)
    return sides


async def _theirs(bench: Bench, name: str, round_s: float) -> Sides | None:
    sides = {num_callers: Side() for num_callers in _CALLERS}
    async with rival(name, bench.home, "embed", sentences()[0]) as running:
        if running is None:
            return None
        for num_callers, side in sides.items():
            await _their_round(running, num_callers, round_s, side)
    return sides


async def _their_round(running: Running, num_callers: int, round_s: float, side: Side) -> None:
    workload = loadgen.Workload.json(running.served.url, map(running.rival.body, sentences()))
    before_s = running.model_cpu_s
    try:
        await _load(running.served, workload, num_callers, round_s, side)
    except UnansweredError:  # so it is at this number of callers, which is no fault of the measure
        return
    side.model_s.append(running.model_cpu_s - before_s)


async def _load(
    served: Served, workload: loadgen.Workload, num_callers: int, round_s: float, side: Side
) -> loadgen.Report:
    load = await closed(served.server, workload, num_callers, round_s)
    side.cpu_s.append(load.cpu_s)
    side.num_items.append(load.report.outcomes["ok"])
    side.per_s.append(load.per_s)
    return load.report


def _rows(num_callers: int, ours: Sides, theirs: dict[str, Sides | None]) -> list[Row]:
    at = f"MiniLM, {num_callers} caller{'s' if num_callers > 1 else ''}"
    side = ours[num_callers]
    rows = [
        Row(f"{at}: items a second", median(side.per_s), "1/s"),
        Row(f"{at}: model CPU over server CPU", side.model_share, "", at_least(_LEAST_MODEL_SHARE)),
        Row(f"{at}: framework CPU an item", side.framework_ms, "ms", at_most(_MOST_FRAMEWORK_MS)),
    ]
    if num_callers == 1:
        wait_ms = median(side.wait_ms)
        rows.append(Row(f"{at}: p99 of the wait in the queue", wait_ms, "ms", at_most(_MOST_LONE_WAIT_MS)))
    shares = {}
    for name, sides in theirs.items():
        if sides is not None and sides[num_callers].model_s:
            shares[name] = sides[num_callers].model_share
            rows.append(Row(f"{at}: model CPU over server CPU, {title(name)}", shares[name]))
            rows.append(Row(f"{at}: framework CPU an item, {title(name)}", sides[num_callers].framework_ms, "ms"))
    if shares:
        best = max(shares.values())
        rows.append(Row(f"{at}: share over the best other's", side.model_share / best, "", at_least(1.0)))
    return rows
