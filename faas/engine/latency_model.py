"""How long a batch takes at most, by size: what deadlines are decided on. Learned while serving, from what ran."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from faas.engine import edf
from faas.engine.line import Line

Profile = Sequence[tuple[int, float, float]]
"""What is known, as plain values: size, the seconds it usually takes, and at most. Sizes rise."""

QUANTILE: Final = 0.99
WINDOW: Final = 50
"""The last runs of a size that count. The worst of them does not: the quantile is the next one down."""

_ENOUGH: Final = 3
"""Runs of a size before they count for more than what other sizes say; runs in all before anybody is refused."""

_TOLERANCE: Final = 1.25
"""By how much a run may lie outside what its size was seen to take before it is a stray."""

_DRIFTED: Final = 3
"""This many strays in a row, all slower or all faster, are a change of the device's speed."""

_SINGLE_SIZES: Final = 32
"""Larger sizes share their figures with those that differ by a sixteenth."""

_MIN_S: Final = 1e-7


class LatencyModel:
    """A line through the averages, and for each size that ran a quantile over its last runs.

    Sizes that have not run get the line's seconds, scaled as the quantile of the next size lies above the line, and
    held between the quantiles of their neighbours: so a larger size never takes less. All seconds are kept in units of
    the device's speed. When runs stray to one side, it is that which has changed (a throttled GPU, a neighbour on the
    processor): what is known of every size is then scaled at once, sizes that did not run included. `padded` tells what
    a batch of a size is padded up to, since that is what runs.
    """

    def __init__(self, padded: Callable[[int], int] | None = None, profile: Profile = ()) -> None:
        self.num_observed = 0
        self.largest_run = 0
        self._padded = padded
        self._line = Line()
        self._speed = 1.0
        self._windows: dict[int, _Window] = {}
        self._rising: list[_Window] = []
        self._strays: list[tuple[int, float, bool]] = []
        self._bounds: tuple[list[int], list[float]] | None = None
        self._within: dict[tuple[float, int], int] = {}
        for size, usual_s, most_s in profile:
            self._open(_class(size)).tell(usual_s, most_s)
            self._line.observe(size, usual_s)
            self.largest_run = max(self.largest_run, size)
        if profile:
            self.num_observed = _ENOUGH

    @property
    def is_confident(self) -> bool:
        """Whether enough was seen, and fits together, for somebody to be refused on this model's word."""
        return self.num_observed - len(self._strays) >= _ENOUGH

    @property
    def alpha_s(self) -> float:
        """The seconds that each item adds."""
        return self._line.alpha_s * self._speed

    @property
    def beta_s(self) -> float:
        """The seconds of a batch that do not grow with its size."""
        return self._line.beta_s * self._speed

    def seconds(self, size: int) -> float:
        """Return what a batch of `size` items takes on average; 0.0 before any has run."""
        return self._line.seconds(self._runs_as(size)) * self._speed

    def at_most(self, size: int) -> float:
        """Return what a batch of `size` items hardly ever exceeds: its quantile. 0.0 before any has run."""
        size = self._runs_as(size)
        if self._bounds is None:
            self._bounds = self._make_bounds()
        sizes, bounds = self._bounds
        at = bisect_left(sizes, _class(size))
        if at < len(sizes) and sizes[at] == _class(size):
            return bounds[at] * self._speed
        guess = self._line.seconds(size)
        if sizes:
            near = max(0, at - 1)
            guess *= max(1.0, bounds[near] / max(self._line.seconds(sizes[near]), _MIN_S))
        low, high = bounds[at - 1] if at else 0.0, bounds[at] if at < len(sizes) else guess
        return max(low, min(guess, high)) * self._speed

    def largest_within(self, seconds: float, most: int) -> int:
        """Return the largest size up to `most`, 1 at least, that takes at most `seconds`."""
        known = self._within.get((seconds, most))
        if known is None:
            known = edf.largest(1, most, lambda size: self.at_most(size) <= seconds)
            self._within[seconds, most] = known
        return known

    def observe(self, size: int, seconds: float) -> None:
        """Learn that a batch of `size` >= 1 items, as it ran, took `seconds` >= 0."""
        self.num_observed += 1
        self.largest_run = max(self.largest_run, size)
        self._bounds = None
        self._within.clear()
        window = self._windows.get(_class(size))
        side = 0 if window is None else window.side(self._at_class(size, seconds))
        slower = side > 0
        if side and all(way == slower for _, _, way in self._strays):
            self._strays.append((size, seconds, slower))
            if len(self._strays) >= _DRIFTED:
                self._drift()
            return
        strays, self._strays = self._strays, [(size, seconds, slower)] if side else []
        for stray_size, stray_s, _ in strays:  # one that stays alone is no drift, but one of the slow runs there are
            self._windows[_class(stray_size)].add(self._at_class(stray_size, stray_s))
        if not side:
            self._take(size, seconds)

    def profile(self) -> Profile:
        """Return what is known of the sizes that ran often enough; what `__init__` takes."""
        known = [window for window in self._rising if window.counts]
        return [(window.size, window.usual * self._speed, window.bound * self._speed) for window in known]

    def _drift(self) -> None:
        """Take the strays for a new speed, and for the first runs at it."""
        strays, self._strays = self._strays, []
        usual = [max(self._windows[_class(size)].usual * self._speed, _MIN_S) for size, _, _ in strays]
        ratios = [max(seconds, _MIN_S) / expected for (_, seconds, _), expected in zip(strays, usual, strict=True)]
        self._speed *= _median(ratios)
        for size, seconds, _ in strays:
            self._take(size, seconds)

    def _take(self, size: int, seconds: float) -> None:
        self._line.observe(size, seconds / self._speed)
        window = self._windows.get(_class(size)) or self._open(_class(size))
        window.add(self._at_class(size, seconds))

    def _open(self, size: int) -> _Window:
        made = self._windows[size] = _Window(size)
        insort(self._rising, made, key=_size_of)
        return made

    def _at_class(self, size: int, seconds: float) -> float:
        """Return what a run comes to in units of the speed, for the size under which it is counted."""
        counted = _class(size)
        if counted == size:
            return seconds / self._speed
        return seconds / self._speed * self._line.seconds(counted) / max(self._line.seconds(size), _MIN_S)

    def _make_bounds(self) -> tuple[list[int], list[float]]:
        """Return the sizes that count, and their quantiles, made to rise."""
        sizes, bounds, highest = [], [], 0.0
        for window in self._rising:
            if window.counts:
                highest = max(highest, window.bound)
                sizes.append(window.size)
                bounds.append(highest)
        return sizes, bounds

    def _runs_as(self, size: int) -> int:
        return size if self._padded is None else self._padded(size)


class _Window:
    """The last runs of one size, by time and by length; before there are enough of them, what a profile says.

    `usual` is their median and `bound` the quantile. `counts`: it says more than the line does.
    """

    __slots__ = ("_high", "_low", "_recent", "_sorted", "bound", "counts", "size", "usual")

    def __init__(self, size: int) -> None:
        self.size = size
        self.usual = self.bound = self._low = self._high = 0.0
        self.counts = False
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def tell(self, usual: float, bound: float) -> None:
        """Take what a profile says until there are enough runs."""
        self.usual = self._low = usual
        self.bound = self._high = bound
        self.counts = True

    def side(self, value: float) -> int:
        """Return whether a value lies clearly below (-1) or above (1) all that was seen, or not (0)."""
        return (value > self._high * _TOLERANCE) - (value * _TOLERANCE < self._low)

    def add(self, value: float) -> None:
        """Take in one run; the oldest of more than `WINDOW` goes."""
        held = self._sorted
        self._recent.append(value)
        insort(held, value)
        if len(held) > WINDOW:
            del held[bisect_left(held, self._recent.popleft())]
        if len(held) >= _ENOUGH or not self.counts:
            self.usual, self.bound = held[len(held) // 2], held[int(QUANTILE * (len(held) - 1))]
            self._low, self._high = held[0], held[-1]
            self.counts = len(held) >= _ENOUGH


def _size_of(window: _Window) -> int:
    return window.size


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]  # the module `statistics` is more than an instance should load for this


def _class(size: int) -> int:
    """Return the size under which `size` is counted: itself, or the next sixteenth of a power of two."""
    if size <= _SINGLE_SIZES:
        return size
    step = 1 << (size - 1).bit_length() - 5
    return -(-size // step) * step
