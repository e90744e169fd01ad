"""What the autoscaler remembers of a function's load: sums by second, averaged over a stable and a panic window.

The averages are those of Knative's autoscaler, to its last digit. Time is a count of whole seconds of any clock that
never goes back; it is always handed in.
"""

import math
from dataclasses import dataclass
from typing import Protocol

_DIGITS = 1e6
_WEIGHT_COVERED = 0.9999  # share of the weight that a weighted window holds
_MIN_SMOOTHING = 0.2


class Window(Protocol):
    """An average of one value a second over the last seconds."""

    def record(self, second: int, value: float) -> None:
        """Add `value` to the sum of `second`. A second that has left the window is ignored."""

    def average(self, second: int) -> float:
        """The average at `second`, that second included; 0.0 after a silence of the whole window."""

    def is_silent(self, second: int) -> bool:
        """Whether nothing was recorded within the window that ends with `second`."""


class _Buckets:
    """A ring of sums by second; a silence of at least its length starts it anew."""

    def __init__(self, window_s: int) -> None:
        if window_s < 1:
            raise ValueError(f"a window lasts at least 1 s, not {window_s}: give a whole number of seconds")
        self._sums = [0.0] * window_s
        self._first: int | None = None
        self._last = 0

    def record(self, second: int, value: float) -> None:
        num = len(self._sums)
        if self._first is None or second - self._last >= num:
            self._sums = [0.0] * num
            self._first = self._last = second
        if second <= self._last - num:
            return
        for skipped in range(self._last + 1, second + 1):
            self._sums[skipped % num] = 0.0
        self._first, self._last = min(self._first, second), max(self._last, second)
        self._sums[second % num] += value

    def is_silent(self, second: int) -> bool:
        return self._first is None or second - self._last >= len(self._sums)

    def _newest_first(self, second: int) -> list[float]:
        """The sums from the last recorded second back to the first, as far as the window ending at `second` goes."""
        if self._first is None or self.is_silent(second):
            return []
        num_silent = max(0, second - self._last)
        num_valid = min(self._last - self._first + 1, len(self._sums) - num_silent)
        return [self._sums[(self._last - age) % len(self._sums)] for age in range(num_valid)]


class MeanWindow(_Buckets):
    """The plain mean: a gap inside the window counts as 0, silent seconds at its end shorten it, and so does youth."""

    def average(self, second: int) -> float:
        """Mean of the seconds recorded so far, to 6 digits, a half rounded up."""
        sums = self._newest_first(second)
        mean = math.fsum(sums) / max(1, len(sums))
        return math.floor(mean * _DIGITS + 0.5) / _DIGITS


class WeightedWindow(_Buckets):
    """Knative's `weighted-exponential`: the newest second weighs most, each older one a fixed share less."""

    def __init__(self, window_s: int) -> None:
        super().__init__(window_s)
        self._smoothing = max(_MIN_SMOOTHING, 1 - (1 - _WEIGHT_COVERED) ** (1 / window_s))

    def average(self, second: int) -> float:
        """Sum of value * a * (1 - a)**age over the window, `a` being its smoothing."""
        a = self._smoothing
        return math.fsum(value * a * (1 - a) ** age for age, value in enumerate(self._newest_first(second)))


@dataclass(frozen=True, slots=True)
class Averages:
    """Mean concurrency over the stable and over the panic window."""

    stable: float
    panic: float


class LoadWindows:
    """One function's stable and panic window, fed together."""

    def __init__(self, stable_window_s: int, panic_window_s: int, *, weighted: bool = False) -> None:
        kind: type[MeanWindow] | type[WeightedWindow] = WeightedWindow if weighted else MeanWindow
        self._stable: Window = kind(stable_window_s)
        self._panic: Window = kind(panic_window_s)

    def record(self, second: int, concurrency: float) -> None:
        """Add one reporter's average concurrency of `second`; several reporters of a second add up."""
        self._stable.record(second, concurrency)
        self._panic.record(second, concurrency)

    def averages(self, second: int) -> Averages:
        """Both averages at `second`; 0.0 where the window is silent."""
        return Averages(self._stable.average(second), self._panic.average(second))

    def is_silent(self, second: int) -> bool:
        """Whether neither window holds anything: no data, where a source of it exists."""
        return self._stable.is_silent(second) and self._panic.is_silent(second)
