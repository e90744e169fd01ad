"""How much is asked of a function: requests at once, or a second, over time for the autoscaler, and plain counts."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from faas.clock import Clock

_MIN_RATE = 0.001  # well above what an average over the longest window is rounded to


class Concurrency:
    """Requests at once, held and in flight, as a time-weighted average over periods that the caller ends.

    `on_return`, where it is set, is called when a request comes while none is there, before it is counted.
    """

    __slots__ = ("_area", "_changed_s", "_clock", "_is_announced", "_last_s", "_period_s", "current", "on_return")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.current = 0
        self._area = 0.0  # request-seconds of the period so far
        self._period_s = self._changed_s = clock()
        self._last_s = -math.inf
        self._is_announced = False
        self.on_return: Callable[[], object] | None = None

    def enter(self) -> None:
        """A request arrived."""
        if not self.current and self.on_return is not None:
            self.on_return()
        now_s = self._clock()
        self._area += self.current * (now_s - self._changed_s)
        self._changed_s = self._last_s = now_s
        self.current += 1

    def leave(self) -> None:
        """A request has got its answer, or went away."""
        now_s = self._clock()
        self._area += self.current * (now_s - self._changed_s)
        self._changed_s = self._last_s = now_s
        self.current -= 1

    @property
    def last_activity_s(self) -> float:
        """When a request was last here; now while one is, minus infinity if none ever was."""
        return self._clock() if self.current else self._last_s

    def announce(self) -> float:
        """The one request that found the function at zero, for the autoscaler at once; `report` will leave it out.

        Knative's activator does so: a first request is worth 1.0 before the period that it belongs to has ended.
        """
        self._is_announced = True
        return 1.0

    def report(self) -> float:
        """The average over the period that ends now; the next one begins."""
        now_s = self._clock()
        area = self._area + self.current * (now_s - self._changed_s)
        length_s = now_s - self._period_s
        average = area / length_s if length_s > 0 else float(self.current)
        if self._is_announced:
            average = max(average - 1.0, 0.0)
        self._area = 0.0
        self._period_s = self._changed_s = now_s
        self._is_announced = False
        return average


class Rate:
    """Requests a second, over the same periods, from what is counted anyway.

    While requests are there of which none is new it is a little more than nothing: a call of minutes needs an instance.
    """

    __slots__ = ("_clock", "_concurrency", "_counts", "_is_announced", "_num_before", "_period_s")

    def __init__(self, clock: Clock, concurrency: Concurrency, counts: "Counts") -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._counts = counts
        self._num_before = counts.requests
        self._period_s = clock()
        self._is_announced = False

    def announce(self) -> float:
        """The one request that found the function at zero, for the autoscaler at once; `report` will leave it out."""
        self._is_announced = True
        return 1.0

    def report(self) -> float:
        """The requests of the period that ends now, for each of its seconds; the next one begins."""
        now_s, num_now = self._clock(), self._counts.requests
        num = max(0, num_now - self._num_before - self._is_announced)
        length_s = now_s - self._period_s
        self._num_before, self._period_s, self._is_announced = num_now, now_s, False
        rate = num / length_s if length_s > 0 else float(num)
        return rate or (_MIN_RATE if self._concurrency.current else 0.0)


@dataclass(slots=True)
class Counts:
    """What happened to a function's requests since the start.

    Of all `requests`, `held` waited for an instance, `cold` of them for the first to start. `retried` counts attempts
    of which no byte was read by an instance and that were made again. `failed` were answered or cut by the activator
    (busy, too late, an instance died), and `cancelled` by their client. To `errors` an instance answered 500 or more.
    """

    requests: int = 0
    held: int = 0
    cold: int = 0
    retried: int = 0
    failed: int = 0
    errors: int = 0
    cancelled: int = 0
