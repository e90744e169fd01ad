"""A histogram of durations: fixed memory, three significant digits, mergeable, with the mean and maximum exact."""

from dataclasses import dataclass

import msgspec
from hdrh.histogram import HdrHistogram

_HIGHEST_US = 3_600_000_000  # one hour; what is longer is counted there, and its maximum kept as it was
_SIGNIFICANT_DIGITS = 3
_PERMILLES = (500, 900, 950, 990, 999)


@dataclass(frozen=True, slots=True)
class Summary:
    """The distribution of `num` durations, in milliseconds, within 0.1 % (mean and maximum exact).

    A percentile is the least duration that at least so many of them do not exceed (nearest rank): of fewer than 100
    the 99th is the maximum.
    """

    num: int
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    p99_9_ms: float
    max_ms: float


class Encoded(msgspec.Struct, frozen=True):
    """A histogram on its way between processes."""

    counts: str
    sum_s: float
    max_s: float


class Histogram:
    """Durations in seconds, recorded one by one."""

    def __init__(self) -> None:
        self._counts = HdrHistogram(1, _HIGHEST_US, _SIGNIFICANT_DIGITS)
        self._sum_s = 0.0
        self._max_s = 0.0

    @property
    def num(self) -> int:
        """How many durations were recorded."""
        return int(self._counts.total_count)

    def record(self, duration_s: float) -> None:
        """Count one duration; the clock's jitter below zero counts as zero."""
        duration_s = max(duration_s, 0.0)
        self._counts.record_value(min(round(duration_s * 1e6), _HIGHEST_US))
        self._sum_s += duration_s
        self._max_s = max(self._max_s, duration_s)

    def merge(self, other: "Histogram") -> None:
        """Add what `other` holds."""
        self._counts.add(other._counts)
        self._sum_s += other._sum_s
        self._max_s = max(self._max_s, other._max_s)

    def summary(self) -> Summary | None:
        """Return the distribution, or None when nothing was recorded."""
        if not self.num:
            return None
        # hdrh rounds to the nearest duration, and would leave out the one slow answer of 60: so it is asked for ranks.
        ranks = [100 * -(-self.num * permille // 1000) / self.num for permille in _PERMILLES]
        values_us = self._counts.get_percentile_to_value_dict(ranks)
        # It names the highest value of a bucket, which may lie above the largest there was.
        p50, p90, p95, p99, p99_9 = (min(values_us[rank] / 1e3, self._max_s * 1e3) for rank in ranks)
        return Summary(self.num, self._sum_s / self.num * 1e3, p50, p90, p95, p99, p99_9, self._max_s * 1e3)

    def encode(self) -> Encoded:
        """Return this histogram as a message."""
        return Encoded(counts=self._counts.encode().decode(), sum_s=self._sum_s, max_s=self._max_s)

    @classmethod
    def decode(cls, message: Encoded) -> "Histogram":
        """Return the histogram that was encoded."""
        histogram = cls()
        histogram._counts.decode_and_add(message.counts.encode())
        histogram._sum_s, histogram._max_s = message.sum_s, message.max_s
        return histogram
