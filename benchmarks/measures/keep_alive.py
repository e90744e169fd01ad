"""How idle functions are kept warm, on a trace: cold starts and instance-seconds of fixed windows and of the histogram.

The trace (`benchmarks.traces`) is replayed by the platform's own control loop on a clock that jumps, as `faas simulate`
does. The histogram is held against the shortest fixed window that takes at least as many instance-seconds, so that what
is left between two windows speaks for the fixed one.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec

from benchmarks import traces
from benchmarks.area import Bench
from benchmarks.rows import Row, at_most
from faas import Scaling, inference_function
from faas.description import Description
from faas.platform import trace
from faas.platform.simulation import Outcome, simulate
from faas.platform.trace import Trace
from faas.spec import KeepAliveMode

START_S = 0.07
"""What an instance takes to be ready from a warm zygote."""
USUAL_S = 600.0
"""The fixed window that providers are known to keep, ten minutes."""
WINDOWS_S = (300.0, 600.0, 900.0, 1200.0, 1500.0, 1800.0, 2400.0, 3600.0, 7200.0)
_MOST_OF_THE_COLD_STARTS = 0.8
_SEED = 2021


async def measure(bench: Bench) -> list[Row]:
    """Replay a day of 24 applications, or of 8, under each policy: less than a day is too short to learn from."""
    path = bench.home / "trace.csv"
    traces.write(path, num_apps=bench.choose(24, 8), duration_s=traces.DAY_S, seed=_SEED)
    return await asyncio.to_thread(_compare, path)  # each simulation has an event loop of its own


def _compare(path: Path) -> list[Row]:
    found = trace.read(path)

    @cache
    def fixed(window_s: float) -> Outcome:
        return _replay(found, "fixed", window_s)

    usual, histogram = fixed(USUAL_S), _replay(found, "histogram", USUAL_S)
    window_s = _matching(fixed, histogram)
    matched = fixed(window_s)
    return [
        *_rows(f"fixed window of {USUAL_S:.0f} s", usual),
        *_rows("histogram of idle times", histogram),
        *_rows(f"fixed window of {window_s:.0f} s, which takes no fewer instance-seconds", matched),
        Row(
            "cold starts of the histogram / of that fixed window",
            histogram.num_cold / max(1, matched.num_cold),
            "",
            at_most(_MOST_OF_THE_COLD_STARTS),
        ),
    ]


def _matching(fixed: Callable[[float], Outcome], histogram: Outcome) -> float:
    """Return the shortest window that takes at least the histogram's instance-seconds, by halving; else the longest."""
    last = len(WINDOWS_S) - 1
    found = bisect_left(WINDOWS_S, histogram.instance_s, hi=last, key=lambda window_s: fixed(window_s).instance_s)
    return WINDOWS_S[found]


def _replay(found: Trace, mode: KeepAliveMode, window_s: float) -> Outcome:
    made = inference_function(name="any", scaling=Scaling(scaledown_window_s=window_s, max_instances=10))(_any)
    description = msgspec.structs.replace(Description.of(made, "any"), keep_alive=mode)
    total = Outcome()
    for calls in found.calls.values():
        total += simulate(description, calls, start_s=START_S, until_s=found.duration_s)
    return total


def _any() -> None:
    """Stand for each function of the trace."""


def _rows(what: str, outcome: Outcome) -> list[Row]:
    return [
        Row(f"{what}: share of {outcome.num_calls} calls that start cold", outcome.cold_share * 100, "%"),
        Row(f"{what}: instance-seconds", outcome.instance_s, "s"),
    ]
