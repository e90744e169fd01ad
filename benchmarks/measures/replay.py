"""A day of calls replayed in ten minutes, on two platforms at once: a fixed window against the histogram of idle times.

The trace is that of `keep_alive`, at 144 times its speed; so are the bins of the histogram (`benchmarks.hurried`), and
the fixed window. That is the shortest, in whole seconds, that a simulation at this speed has take a little more
instance-seconds than the histogram, so that what is left between the two speaks for the fixed one.
"""

import asyncio
from bisect import bisect_left
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from benchmarks import copies, traces
from benchmarks.area import Bench
from benchmarks.box import running_box
from benchmarks.hurried import SPEED, unseen
from benchmarks.measures.keep_alive import START_S
from benchmarks.replaying import Toll, replay
from benchmarks.rows import Row, at_most
from faas import Scaling, inference_function
from faas.description import Description
from faas.platform import trace
from faas.platform.simulation import Call, Outcome, simulate
from faas.spec import KeepAliveMode

TIMES_AS_FAST = 144.0
"""A day in ten minutes."""
_LEAST_WINDOW_S, _MOST_WINDOW_S = 6, 100
_MORE_INSTANCE_SECONDS = 1.05
_MOST_OF_THE_COLD_STARTS = 0.8
_MOST_INSTANCE_SECONDS = 1.0
_QUICK_S = 60.0
_SEED = 2021
_APP = """import asyncio

from faas import Scaling, inference_function


@inference_function(
    name="app-0",
    scaling=Scaling(scaledown_window_s={window_s}, keep_alive="{mode}", max_instances=10),
    warmup=[0.0],
)
async def app(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds
"""

Calls = dict[str, list[Call]]
"""Of each function, at the speed of the replay."""


async def measure(bench: Bench) -> list[Row]:
    calls = _calls(bench.home / "replayed.csv", num_apps=bench.choose(24, 8))
    window_s = await asyncio.to_thread(_matching_window_s, calls)  # each simulation has an event loop of its own
    until_s = bench.choose(traces.DAY_S / TIMES_AS_FAST, _QUICK_S)
    fixed, histogram = await _side_by_side(bench, calls, window_s, until_s)
    what = f"fixed window of {window_s * TIMES_AS_FAST / 60:.0f} min"
    of_starts, of_seconds = at_most(_MOST_OF_THE_COLD_STARTS), at_most(_MOST_INSTANCE_SECONDS)
    return [
        *_rows(f"replay, {what}", fixed),
        *_rows("replay, histogram of idle times", histogram),
        Row(
            "replay: instance-seconds of the histogram / of the fixed window",
            histogram.instance_s / fixed.instance_s,
            "",
            bench.choose(of_seconds, None),  # minutes are too short to learn from
        ),
        Row(
            "replay: cold starts of the histogram / of the fixed window",
            histogram.num_cold / max(1, fixed.num_cold),
            "",
            bench.choose(of_starts, None),
        ),
    ]


def _calls(path: Path, num_apps: int) -> Calls:
    traces.write(path, num_apps=num_apps, duration_s=traces.DAY_S, seed=_SEED)
    return {
        f"app-{number}": [Call(call.at_s / TIMES_AS_FAST, call.duration_s / TIMES_AS_FAST) for call in calls]
        for number, calls in enumerate(trace.read(path).calls.values())
    }


def _matching_window_s(calls: Calls) -> int:
    """Return the shortest window that takes a little more than the histogram, by halving; else the longest."""
    wanted_s = _simulated(calls, "histogram", _LEAST_WINDOW_S).instance_s * _MORE_INSTANCE_SECONDS
    windows_s = range(_LEAST_WINDOW_S, _MOST_WINDOW_S + 1)
    last = len(windows_s) - 1
    found = bisect_left(windows_s, wanted_s, hi=last, key=lambda one: _simulated(calls, "fixed", one).instance_s)
    return windows_s[found]


def _simulated(calls: Calls, mode: KeepAliveMode, window_s: int) -> Outcome:
    made = inference_function(name="app", scaling=Scaling(scaledown_window_s=window_s, max_instances=10))(_app)
    description = msgspec.structs.replace(Description.of(made, "app"), keep_alive=mode)
    total, until_s = Outcome(), traces.DAY_S / TIMES_AS_FAST
    for of_one in calls.values():
        total += simulate(description, of_one, start_s=START_S, until_s=until_s, unseen=unseen(TIMES_AS_FAST))
    return total


async def _app() -> None:
    """Stand for each function of the trace."""


async def _side_by_side(bench: Bench, calls: Calls, window_s: int, until_s: float) -> tuple[Toll, Toll]:
    """Replay the calls on a platform of each kind at the same time."""
    kinds: tuple[tuple[KeepAliveMode, int], ...] = (("fixed", window_s), ("histogram", _LEAST_WINDOW_S))
    async with AsyncExitStack() as owned:
        boxes = []
        for mode, of_kind_s in kinds:
            home = bench.home / mode
            targets = await _targets(home, _APP.format(window_s=of_kind_s, mode=mode), len(calls))
            running = running_box(home, *targets, module="benchmarks.hurried", variables={SPEED: str(TIMES_AS_FAST)})
            boxes.append(await owned.enter_async_context(running))
        began_at = asyncio.get_running_loop().time()
        fixed, histogram = await asyncio.gather(
            *(replay(box, calls, began_at=began_at, until_s=until_s) for box in boxes)
        )
    return fixed, histogram


async def _targets(home: Path, text: str, num: int) -> list[str]:
    made = await copies.first(home, "app-0", text)
    names = ["app-0", *(copies.copy(home, made, f"app-{number}").name for number in range(1, num))]
    return [copies.target(home, name) for name in names]


def _rows(what: str, toll: Toll) -> list[Row]:
    return [
        Row(f"{what}: share of {toll.num_calls} calls that start cold", toll.cold_share * 100, "%"),
        Row(f"{what}: instance-seconds", toll.instance_s, "s"),
        Row(f"{what}: calls that failed", toll.num_failed, "", at_most(0)),
        Row(f"{what}: calls sent late, the most", max(toll.late_s, default=0.0) * 1e3, "ms"),
    ]
