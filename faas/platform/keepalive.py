"""How long an idle function stays warm, and when it is warmed again before it is asked for: a histogram of idle times.

The policy of Shahrad et al., "Serverless in the Wild" (USENIX ATC 2020), section 4.2: the times between the end of one
burst of requests and the next request are counted in bins of a minute. Where they form a pattern, the function is let
go at once, warmed again just before the earliest usual return (the 5th percentile, 10 % sooner), and kept until the
latest usual one (the 99th, 10 % later). Where they form none, it is kept for the histogram's whole range. Where most of
them lie beyond the range, the next one is forecast from those before. Pure: the caller measures and acts.

Two things differ from the paper. The forecast is the median of the last idle times, not an ARIMA model's. And requests
less than `BURST_S` apart are one burst, whose gaps are no idle times: the paper's own data have whole minutes, where
such gaps do not show; counted, they would hide the pauses between the bursts, and no pause would ever be provided for.
So a function stays warm for that long after every answer.
"""

from dataclasses import dataclass, replace
from math import ceil, sqrt
from statistics import median

BURST_S = 10.0
HEAD, TAIL = 0.05, 0.99
MARGIN = 0.10
FORECAST_MARGIN = 0.15
REPRESENTATIVE_CV = 2.0
"""The coefficient of variation of the bins' counts from which on they are a pattern: 0 where all are alike."""
MOSTLY_BEYOND = 0.5
MIN_OBSERVED = 2
"""One idle time alone is no pattern, however sharp."""
NUM_RECENT = 8


@dataclass(frozen=True)
class IdleTimes:
    """A function's idle times, in bins of `bin_s` from 0 on; `num_beyond` lie past the last.

    Requests less than `burst_s` apart are one burst.
    """

    bin_s: float = 60.0
    counts: tuple[int, ...] = (0,) * 240
    num_beyond: int = 0
    recent_s: tuple[float, ...] = ()
    burst_s: float = BURST_S

    @property
    def range_s(self) -> float:
        """The longest idle time that has a bin, seconds."""
        return self.bin_s * len(self.counts)

    @property
    def num_within(self) -> int:
        """Idle times that have a bin."""
        return sum(self.counts)

    def observe(self, idle_s: float) -> "IdleTimes":
        """Return what is known after one more idle time, in seconds; one within a burst tells nothing."""
        if idle_s < self.burst_s:
            return self
        counts, beyond = self.counts, self.num_beyond
        index = int(idle_s / self.bin_s)
        if index < len(counts):
            counts = (*counts[:index], counts[index] + 1, *counts[index + 1 :])
        else:
            beyond += 1
        recent_s = (*self.recent_s, idle_s)[-NUM_RECENT:]
        return replace(self, counts=counts, num_beyond=beyond, recent_s=recent_s)


@dataclass(frozen=True)
class KeepAlive:
    """What to do after the last answer, in seconds from then: be warm for `burst_s`, then from `prewarm_s` to `keep_s`.

    With `prewarm_s` 0 the function simply stays warm.
    """

    prewarm_s: float
    keep_s: float
    burst_s: float = BURST_S

    def wants_warm(self, idle_s: float) -> bool:
        """Tell whether the function should be warm this long after its last answer."""
        return idle_s < self.burst_s or self.prewarm_s <= idle_s < self.keep_s

    def next_change_s(self, idle_s: float) -> float | None:
        """Return how long after the last answer to ask `wants_warm` again, None where it stays as it is."""
        return min((at_s for at_s in (self.burst_s, self.prewarm_s, self.keep_s) if at_s > idle_s), default=None)


def plan(known: IdleTimes) -> KeepAlive:
    """Return for how long to keep a function with these idle times warm."""
    observed = known.num_within + known.num_beyond
    if observed >= MIN_OBSERVED and known.num_beyond >= MOSTLY_BEYOND * observed:
        forecast_s = median(known.recent_s)
        return KeepAlive((1 - FORECAST_MARGIN) * forecast_s, (1 + FORECAST_MARGIN) * forecast_s, known.burst_s)
    if known.num_within < MIN_OBSERVED or variation(known.counts) < REPRESENTATIVE_CV:
        return KeepAlive(0.0, known.range_s, known.burst_s)
    head = _bin_of(known.counts, HEAD)  # its lower edge, and the upper one of the tail's: nothing in them is missed
    tail = _bin_of(known.counts, TAIL) + 1
    return KeepAlive((1 - MARGIN) * head * known.bin_s, (1 + MARGIN) * tail * known.bin_s, known.burst_s)


def variation(counts: tuple[int, ...]) -> float:
    """Return the coefficient of variation of the counts, the standard deviation over the mean; 0 for none at all."""
    mean = sum(counts) / len(counts)
    if mean == 0:
        return 0.0
    return sqrt(sum((count - mean) ** 2 for count in counts) / len(counts)) / mean


def _bin_of(counts: tuple[int, ...], share: float) -> int:
    """Return the bin in which that share of all idle times is reached, counted from the shortest."""
    wanted, reached = max(1, ceil(share * sum(counts))), 0
    for index, count in enumerate(counts):
        reached += count
        if reached >= wanted:
            return index
    raise ValueError("there are no idle times in the bins")
