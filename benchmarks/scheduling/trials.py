"""One rule on one workload: the rate that it sustains, and what it still achieves when it is offered more."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.scheduling import device
from benchmarks.scheduling.device import Rule
from benchmarks.scheduling.workloads import Arrivals, Workload

LOADS = (0.9, 1.2, 2.0)
"""What is offered, as a share of the workload's capacity, when goodput is measured."""

_IN_TIME = 0.99
_FASTEST = 1.6
_STEPS = 11
_SEARCH_S = 20.0
_GOODPUT_S = 10.0
_OTHER_SEED = 1_000


@dataclass(frozen=True)
class Result:
    """`rate` is the largest, in calls a second, at which 99 % are answered in time.

    `goodput` is by load what is answered in time, as a share of the capacity.
    """

    rate: float
    goodput: tuple[float, ...]

    @classmethod
    def median(cls, results: Iterable["Result"]) -> "Result":
        """Return the median of each figure."""
        several = list(results)
        goodputs = zip(*(result.goodput for result in several), strict=True)
        return cls(statistics.median(one.rate for one in several), tuple(map(statistics.median, goodputs)))


def measure(make_rule: Callable[[Workload], Rule], workload: Workload, seed: int) -> Result:
    """Search for the rate by halving, and measure the goodput on other arrivals."""
    capacity = workload.capacity
    arrivals = Arrivals(workload, seed, _FASTEST * capacity * _SEARCH_S)
    low, high = 1.0, _FASTEST * capacity
    for _ in range(_STEPS):
        rate = (low + high) / 2
        if _sustains(make_rule(workload), workload, arrivals.at(rate, _SEARCH_S)):
            low = rate
        else:
            high = rate
    others = Arrivals(workload, _OTHER_SEED + seed, max(LOADS) * capacity * _GOODPUT_S)
    goodput = [
        load * device.run(workload, make_rule(workload), others.at(load * capacity, _GOODPUT_S)) for load in LOADS
    ]
    return Result(low, tuple(goodput))


def _sustains(rule: Rule, workload: Workload, arrivals: list[list[float]]) -> bool:
    may_miss = (1.0 - _IN_TIME) * sum(map(len, arrivals))
    return device.run(workload, rule, arrivals, may_miss) >= _IN_TIME
