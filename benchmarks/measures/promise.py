"""A promise under a load that can be kept up with, and under twice what can: who is answered in time.

One model on one core (`benchmarks.functions.linear`), real threads and HTTP. The capacity is what the same model
answers in batches of the target size without a pause, in the same run. Each call waits there for one batch and is part
of the next: the promise is the time of 99 of 100 of them, twice a batch as the rule counts it. Others' servers get the
same load.

The model needs one of two cores for itself, and the load comes from the other: so from drivers that need little.
"""

from dataclasses import dataclass
from typing import Any

from benchmarks.area import Bench
from benchmarks.flood import flood
from benchmarks.functions.linear import ROUNDS_PER_MS, SLO_MS, TARGET, rounds_per_ms
from benchmarks.rivals import RIVALS, missing, rival, title
from benchmarks.rows import Row, at_least, at_most
from benchmarks.served import faas_serve
from benchmarks.storm import Storm, storm

_UNDER, _OVER = 0.85, 2.0
_LEAST_IN_TIME = 0.99
_LEAST_GOODPUT = 0.9
_SEED = 7
_GIVES_UP_S = 10.0
_ITEM = "x"
_MODEL_CPU = "faas_model_cpu_seconds_total"


@dataclass(frozen=True)
class Found:
    """What became of the load of one server: of a share of the capacity, and of a multiple.

    `model_share` is how much of a core the model's thread had under the latter, where that is known.
    """

    under: Storm
    over: Storm
    model_share: float | None = None


@dataclass(frozen=True)
class Setting:
    """What all servers of a run have in common. `variables` are theirs; `under_s` and `over_s` the lengths of loads."""

    capacity: float
    variables: dict[str, str]
    under_s: float
    over_s: float

    @property
    def slo_s(self) -> float:
        """What is promised."""
        return float(self.variables[SLO_MS]) / 1000.0


async def measure(bench: Bench) -> list[Row]:
    setting = await _setting(bench)
    ours = await _ours(bench, setting)
    rows, best = _own_rows(setting, ours), 0.0
    for name in RIVALS:
        async with rival(name, bench.home, "linear", _ITEM, **setting.variables) as running:
            if running is None:
                rows.append(missing(name, "promise"))
                continue
            theirs = await _loaded(running.served.url, running.rival.body(_ITEM), setting)
        rows += _rows(title(name), setting, theirs)
        best = max(best, _goodput(setting, theirs.over))
    if best:
        ours_over_best = _goodput(setting, ours.over) / best
        rows.append(Row("promise: goodput at twice capacity over the best other's", ours_over_best))
    return rows


async def _setting(bench: Bench) -> Setting:
    variables = {ROUNDS_PER_MS: f"{rounds_per_ms():.3f}"}
    async with faas_serve("benchmarks.functions.linear:at_target", bench.home, _ITEM, **variables) as served:
        # Half of the callers wait while the others are answered, so that the model never does.
        load = await flood(served, _ITEM, 2 * TARGET, bench.choose(8.0, 4.0))
    variables[SLO_MS] = f"{load.p99_us / 1000.0:.0f}"
    return Setting(load.per_s, variables, *bench.choose((20.0, 10.0), (8.0, 5.0)))


async def _ours(bench: Bench, setting: Setting) -> Found:
    target = "benchmarks.functions.linear:promised"
    async with faas_serve(target, bench.home, _ITEM, **setting.variables) as served:
        learning_s = bench.choose(8.0, 4.0)  # of what batches take
        await _open(served.url, _ITEM, setting, (_UNDER, learning_s))
        under = await _open(served.url, _ITEM, setting, (_UNDER, setting.under_s))
        before_s = await served.metric(_MODEL_CPU)
        over = await _open(served.url, _ITEM, setting, (_OVER, setting.over_s))
        return Found(under, over, (await served.metric(_MODEL_CPU) - before_s) / setting.over_s)


async def _loaded(url: str, body: Any, setting: Setting) -> Found:
    under = await _open(url, body, setting, (_UNDER, setting.under_s))
    return Found(under, await _open(url, body, setting, (_OVER, setting.over_s)))


async def _open(url: str, body: Any, setting: Setting, load: tuple[float, float]) -> Storm:
    """Put a share of the capacity on a server, for some seconds."""
    share, duration_s = load
    return await storm(url, body, share * setting.capacity, duration_s, seed=_SEED, gives_up_s=_GIVES_UP_S)


def _in_time(setting: Setting, found: Storm) -> float:
    return found.num_within(setting.slo_s) / found.num_due


def _goodput(setting: Setting, found: Storm) -> float:
    """Return the answers in time for each second in which requests were due."""
    return found.num_within(setting.slo_s) / found.duration_s


def _own_rows(setting: Setting, found: Found) -> list[Row]:
    batch_s = setting.slo_s / 2.0
    in_time, goodput = _rows("ours", setting, found)
    longest = max(found.over.refused_s, default=0.0) / batch_s
    return [
        Row(f"promise: capacity, batches of {TARGET}", setting.capacity, "1/s"),
        Row(f"promise: a batch of {TARGET}, at most", batch_s * 1000.0, "ms"),
        Row(in_time.metric, in_time.value, "", at_least(_LEAST_IN_TIME)),
        Row(goodput.metric, goodput.value, "", at_least(_LEAST_GOODPUT)),
        Row("promise: longest until a refusal at twice capacity, in batch times", longest, "", at_most(1.0)),
        Row("promise: of a core that the model had at twice capacity", found.model_share),
        Row("promise: of a core that the load took at twice capacity", found.over.cpu_s / found.over.duration_s),
    ]


def _rows(name: str, setting: Setting, found: Found) -> list[Row]:
    return [
        Row(f"promise: in time at {_UNDER} of capacity, {name}", _in_time(setting, found.under)),
        Row(
            f"promise: goodput at twice capacity over capacity, {name}",
            _goodput(setting, found.over) / setting.capacity,
        ),
    ]
