"""A promise under a load that can be kept up with, and under twice what can: who is answered in time.

One model on one core (`benchmarks.functions.linear`), real threads and HTTP. The capacity is what the same model
answers in batches of the target size without a pause. A core of a shared machine is faster in one minute than in the
next: so the capacity is measured anew before each load and after it. Each call waits there for one batch and is part of
the next: the promise is the time of 99 of 100 of them, twice a batch as the rule counts it, and a tenth for what the
machine does later. Others' servers get the same load.

The model needs one of two cores for itself, and the load comes from the other: so from drivers that need little.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.area import Bench
from benchmarks.flood import Flood, flood
from benchmarks.functions.linear import ROUNDS_PER_MS, SLO_MS, TARGET, rounds_per_ms
from benchmarks.rivals import RIVALS, Running, missing, rival, title
from benchmarks.rows import Row, at_least, at_most
from benchmarks.served import Served, faas_serve
from benchmarks.storm import Storm, storm

_UNDER, _OVER = 0.85, 2.0
_LEAST_IN_TIME = 0.99
_LEAST_GOODPUT = 0.9
_SEED = 7
_GIVES_UP_S = 10.0
_ROOM = 1.1
_CAPACITY_S = 2.0
_ITEM = "x"
_MODEL_CPU = "faas_model_cpu_seconds_total"


@dataclass(frozen=True)
class Device:
    """The model in batches of the target size. `variables` are what all servers of a run have in common."""

    served: Served
    variables: dict[str, str]

    @property
    def slo_s(self) -> float:
        """What is promised."""
        return float(self.variables[SLO_MS]) / 1000.0

    async def capacity(self, duration_s: float) -> float:
        """Return the items a second that it answers now."""
        return (await _flooded(self.served, duration_s)).per_s


@dataclass(frozen=True)
class Loaded:
    """One load, and the capacity at that time."""

    storm: Storm
    capacity: float


@dataclass
class Found:
    """What became of the loads of one server: of a share of the capacity, and of a multiple.

    `model_share` is how much of a core the model's thread had under the latter, where that is known.
    """

    slo_s: float
    under: list[Loaded] = field(default_factory=list)
    over: list[Loaded] = field(default_factory=list)
    model_share: float | None = None

    @property
    def in_time(self) -> float:
        """The share of the calls under the first load that were answered in time."""
        storms = [loaded.storm for loaded in self.under]
        return sum(storm.num_within(self.slo_s) for storm in storms) / sum(storm.num_due for storm in storms)

    @property
    def goodput(self) -> float:
        """The answers in time for each second in which requests were due, over the capacity."""
        return median(
            loaded.storm.num_within(self.slo_s) / loaded.storm.duration_s / loaded.capacity for loaded in self.over
        )

    @property
    def longest_refusal_s(self) -> float:
        """The seconds until the last was told that it is refused, under the second load."""
        return max((took_s for loaded in self.over for took_s in loaded.storm.refused_s), default=0.0)

    @property
    def load_share(self) -> float:
        """How much of a core the second load took."""
        return median(loaded.storm.cpu_s / loaded.storm.duration_s for loaded in self.over)


async def measure(bench: Bench) -> list[Row]:
    async with _device(bench) as device:
        ours = await _ours(bench, device)
        rows, best = _own_rows(ours), 0.0
        for name in RIVALS:
            async with rival(name, bench.home, "linear", _ITEM, **device.variables) as running:
                if running is None:
                    rows.append(missing(name, "promise"))
                    continue
                theirs = await _theirs(bench, device, running)
            rows += _rows(title(name), theirs)
            best = max(best, theirs.goodput)
    if best:
        rows.append(Row("promise: goodput at twice capacity over the best other's", ours.goodput / best))
    return rows


@asynccontextmanager
async def _device(bench: Bench) -> AsyncIterator[Device]:
    variables = {ROUNDS_PER_MS: f"{rounds_per_ms():.3f}"}
    async with faas_serve("benchmarks.functions.linear:at_target", bench.home, _ITEM, **variables) as served:
        load = await _flooded(served, bench.choose(8.0, 4.0))
        variables[SLO_MS] = f"{_ROOM * load.p99_us / 1000.0:.0f}"
        yield Device(served, variables)


async def _flooded(served: Served, duration_s: float) -> Flood:
    """Keep the model busy: half of the callers wait while the others are answered."""
    return await flood(served, _ITEM, 2 * TARGET, duration_s)


async def _ours(bench: Bench, device: Device) -> Found:
    num_rounds, (under_s, over_s) = bench.choose(4, 2), bench.choose((6.0, 3.0), (4.0, 2.0))
    found, shares = Found(device.slo_s), []
    target = "benchmarks.functions.linear:promised"
    async with faas_serve(target, bench.home, _ITEM, **device.variables) as served:
        await _loaded(served.url, _ITEM, device, (_UNDER, 8.0, _SEED))  # it learns what batches take
        for seed in range(num_rounds):
            found.under.append(await _loaded(served.url, _ITEM, device, (_UNDER, under_s, seed)))
            before_s = await served.metric(_MODEL_CPU)
            found.over.append(await _loaded(served.url, _ITEM, device, (_OVER, over_s, seed)))
            shares.append((await served.metric(_MODEL_CPU) - before_s) / over_s)
    found.model_share = median(shares)
    return found


async def _theirs(bench: Bench, device: Device, running: Running) -> Found:
    """Put both loads on a server of others. The capacity is that from before: it computes on when they have ended."""
    body, capacity, found = running.rival.body(_ITEM), await device.capacity(_CAPACITY_S), Found(device.slo_s)
    under_s, over_s = bench.choose((20.0, 10.0), (8.0, 5.0))
    for share, duration_s, loads in ((_UNDER, under_s, found.under), (_OVER, over_s, found.over)):
        loads.append(Loaded(await _stormed(running.served.url, body, share * capacity, duration_s), capacity))
    return found


async def _loaded(url: str, body: Any, device: Device, load: tuple[float, float, int]) -> Loaded:
    """Put a share of the capacity, as it is now, on a server, for some seconds, by a seed."""
    share, duration_s, seed = load
    before = await device.capacity(_CAPACITY_S)
    came = await _stormed(url, body, share * before, duration_s, seed)
    return Loaded(came, (before + await device.capacity(_CAPACITY_S)) / 2.0)


async def _stormed(url: str, body: Any, rate_per_s: float, duration_s: float, seed: int = _SEED) -> Storm:
    return await storm(url, body, rate_per_s, duration_s, seed=seed, gives_up_s=_GIVES_UP_S)


def _own_rows(found: Found) -> list[Row]:
    batch_s = found.slo_s / 2.0
    in_time, goodput = _rows("ours", found)
    capacity = median(loaded.capacity for loaded in (*found.under, *found.over))
    return [
        Row(f"promise: capacity, batches of {TARGET}", capacity, "1/s"),
        Row("promise: half of what is promised, what batches are aimed at", batch_s * 1000.0, "ms"),
        Row(in_time.metric, in_time.value, "", at_least(_LEAST_IN_TIME)),
        Row(goodput.metric, goodput.value, "", at_least(_LEAST_GOODPUT)),
        Row(
            "promise: longest until a refusal at twice capacity, in batch times",
            found.longest_refusal_s / batch_s,
            "",
            at_most(1.0),
        ),
        Row("promise: of a core that the model had at twice capacity", found.model_share),
        Row("promise: of a core that the load took at twice capacity", found.load_share),
    ]


def _rows(name: str, found: Found) -> list[Row]:
    return [
        Row(f"promise: in time at {_UNDER} of capacity, {name}", found.in_time),
        Row(f"promise: goodput at twice capacity over capacity, {name}", found.goodput),
    ]
