"""A promise under a load that can be kept up with, and under twice what can: who is answered in time.

One model on one core (`benchmarks.functions.linear`), real threads and HTTP. The capacity is what the same model
answers in batches of the target size without a pause, in the same run. Each call waits there for one batch and is part
of the next: the promise is the time of 99 of 100 of them, twice a batch as the rule counts it. Others' servers get the
same load.
"""

from dataclasses import dataclass

import loadgen
from benchmarks.area import Bench
from benchmarks.functions.linear import ROUNDS_PER_MS, SLO_MS, TARGET, rounds_per_ms
from benchmarks.load import closed
from benchmarks.rivals import RIVALS, missing, rival, title
from benchmarks.rows import Row, at_least, at_most
from benchmarks.served import Served, faas_serve

_UNDER, _OVER = 0.85, 2.0
_LEAST_IN_TIME = 0.99
_LEAST_GOODPUT = 0.9
_SEED = 7
_GIVES_UP_S = 10.0


@dataclass(frozen=True)
class Found:
    """What became of the load of one server: of a share of the capacity, and of a multiple."""

    under: loadgen.Report
    over: loadgen.Report


@dataclass(frozen=True)
class Setting:
    """What all servers of a run have in common. `variables` are theirs; `under_s` and `over_s` the lengths of loads."""

    capacity: float
    variables: dict[str, str]
    under_s: float
    over_s: float

    @property
    def slo_ms(self) -> float:
        """What is promised."""
        return float(self.variables[SLO_MS])


async def measure(bench: Bench) -> list[Row]:
    setting = await _setting(bench)
    ours = await _ours(bench, setting)
    rows, best = _own_rows(setting, ours), 0.0
    for name in RIVALS:
        async with rival(name, bench.home, "linear", "x", **setting.variables) as running:
            if running is None:
                rows.append(missing(name, "promise"))
                continue
            workload = loadgen.Workload.json(running.served.url, [running.rival.body("x")])
            theirs = await _loaded(workload, setting)
        rows += _rows(title(name), setting, theirs)
        best = max(best, _goodput(theirs.over))
    if best:
        rows.append(Row("promise: goodput at twice capacity over the best other's", _goodput(ours.over) / best))
    return rows


async def _setting(bench: Bench) -> Setting:
    variables = {ROUNDS_PER_MS: f"{rounds_per_ms():.3f}"}
    async with faas_serve("benchmarks.functions.linear:at_target", bench.home, "x", **variables) as served:
        # Half of the callers wait while the others are answered, so that the model never does.
        load = await closed(served.server, _workload(served), 2 * TARGET, bench.choose(8.0, 4.0))
    assert load.report.latency is not None
    variables[SLO_MS] = f"{load.report.latency.p99_ms:.0f}"
    return Setting(load.per_s, variables, *bench.choose((20.0, 10.0), (8.0, 5.0)))


async def _ours(bench: Bench, setting: Setting) -> Found:
    target = "benchmarks.functions.linear:promised"
    async with faas_serve(target, bench.home, "x", **setting.variables) as served:
        learning_s = bench.choose(8.0, 4.0)  # of what batches take
        await _open(_workload(served), setting, _UNDER, learning_s)
        return await _loaded(_workload(served), setting)


def _workload(served: Served) -> loadgen.Workload:
    return loadgen.Workload.json(served.url, ["x"])


async def _loaded(workload: loadgen.Workload, setting: Setting) -> Found:
    under = await _open(workload, setting, _UNDER, setting.under_s)
    return Found(under, await _open(workload, setting, _OVER, setting.over_s))


async def _open(workload: loadgen.Workload, setting: Setting, share: float, duration_s: float) -> loadgen.Report:
    load = loadgen.OpenLoop(rate_per_s=share * setting.capacity)
    return await loadgen.run(
        load, workload, duration_s=duration_s, slo_ms=setting.slo_ms, seed=_SEED, timeout_s=_GIVES_UP_S
    )


def _goodput(report: loadgen.Report) -> float:
    """Return the answers within the SLO for each second in which requests were due."""
    assert report.slo_attainment is not None
    assert report.target_per_s is not None
    return report.slo_attainment * report.target_per_s


def _own_rows(setting: Setting, found: Found) -> list[Row]:
    batch_ms = setting.slo_ms / 2.0
    in_time, goodput = _rows("ours", setting, found)
    refused = [summary.max_ms for name, summary in found.over.latency_by_outcome.items() if name != loadgen.Outcome.OK]
    longest = max(refused, default=0.0) / batch_ms
    return [
        Row(f"promise: capacity, batches of {TARGET}", setting.capacity, "1/s"),
        Row(f"promise: a batch of {TARGET}, at most", batch_ms, "ms"),
        Row(in_time.metric, in_time.value, "", at_least(_LEAST_IN_TIME)),
        Row(goodput.metric, goodput.value, "", at_least(_LEAST_GOODPUT)),
        Row("promise: longest until a refusal at twice capacity, in batch times", longest, "", at_most(1.0)),
    ]


def _rows(name: str, setting: Setting, found: Found) -> list[Row]:
    return [
        Row(f"promise: in time at {_UNDER} of capacity, {name}", found.under.slo_attainment),
        Row(f"promise: goodput at twice capacity over capacity, {name}", _goodput(found.over) / setting.capacity),
    ]
