"""The rule that engines with a promise decide by, against those of others, in simulated time.

Five workloads on one device with a linear model (`benchmarks.scheduling`). Each figure is the median over seeds. Ours
is held to an earlier simulation's, and its margin over what is in wide use to the margins that were found there.
"""

import asyncio
from collections.abc import Iterator, Mapping

from benchmarks.area import Bench
from benchmarks.rows import Row, at_least, at_most
from benchmarks.scheduling.published import MIXED_RANGE, SEEDS, TABLE
from benchmarks.scheduling.rules import RULES
from benchmarks.scheduling.trials import LOADS, Result
from benchmarks.scheduling.trials import measure as try_rule
from benchmarks.scheduling.workloads import WORKLOADS, Workload

Results = Mapping[str, Result]

_TOLERANCE = 0.05
_MARGIN_TOLERANCE = 0.1
"""A margin is of two figures, each of which may be off by that much."""
_USUAL = ("timeout 0", "AIMD", "round robin")


async def measure(bench: Bench) -> list[Row]:
    """Try each rule on each workload, with five seeds or, where less is asked for, one."""
    return await asyncio.to_thread(_compare, range(bench.choose(SEEDS, 1)))


def _compare(seeds: range) -> list[Row]:
    rows: list[Row] = []
    for workload, published in zip(WORKLOADS, TABLE, strict=True):
        found = {name: _tried(name, workload, seeds) for name in RULES}
        rows += _rows(workload, found, published)
    return rows


def _tried(name: str, workload: Workload, seeds: range) -> Result:
    return Result.median(try_rule(RULES[name], workload, seed) for seed in seeds)


def _rows(workload: Workload, found: Results, published: Results) -> Iterator[Row]:
    for name, result in found.items():
        yield Row(f"{workload.name}, {name}: calls a second with 99 % in time", result.rate, "1/s")
        for load, share in zip(LOADS, result.goodput, strict=True):
            yield Row(f"{workload.name}, {name}: goodput at {load} of capacity", share)
    if workload is WORKLOADS[-1]:
        yield from _in_range(workload, found)
    else:
        deviation = _deviation(found["ours"], published["ours"])
        yield Row(f"{workload.name}, ours: farthest from the table", deviation * 100, "%", at_most(_TOLERANCE * 100))
    yield from _margins(workload, found, published)


def _in_range(workload: Workload, found: Results) -> Iterator[Row]:
    for name, (low, high) in MIXED_RANGE.items():
        metric = f"{workload.name}, {name}: calls a second"
        yield Row(f"{metric}, least", found[name].rate, "1/s", at_least(low))
        yield Row(f"{metric}, most", found[name].rate, "1/s", at_most(high))
    for number, load in enumerate(LOADS):
        best_other = max(result.goodput[number] for name, result in found.items() if name != "ours")
        margin = found["ours"].goodput[number] / best_other
        yield Row(f"{workload.name}: goodput at {load}, ours / best other", margin, "", at_least(1.0))


def _deviation(found: Result, published: Result) -> float:
    """Return by what share a figure differs from its published one, the largest of the four."""
    ours, theirs = (found.rate, *found.goodput), (published.rate, *published.goodput)
    return max(abs(a / b - 1.0) for a, b in zip(ours, theirs, strict=True))


def _margins(workload: Workload, found: Results, published: Results) -> Iterator[Row]:
    """Hold how far ours is ahead, in rate and in goodput under overload, to how far it was."""
    for name in _USUAL:
        margin = found["ours"].rate / found[name].rate
        held = published["ours"].rate / published[name].rate * (1.0 - _MARGIN_TOLERANCE)
        yield Row(f"{workload.name}: rate, ours / {name}", margin, "", at_least(round(held, 2)))
    for number, load in enumerate(LOADS[1:], 1):
        best = max(found[name].goodput[number] for name in ("timeout 0", "AIMD"))
        margin = found["ours"].goodput[number] - best
        theirs = max(published[name].goodput[number] for name in ("timeout 0", "AIMD"))
        held = (published["ours"].goodput[number] - theirs) * (1.0 - _MARGIN_TOLERANCE)
        yield Row(
            f"{workload.name}: goodput at {load}, ours less the better of timeout 0 and AIMD",
            margin,
            "",
            at_least(round(held, 2)),
        )
