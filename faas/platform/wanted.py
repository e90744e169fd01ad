"""How many instances a function should have now, by load, habit, hand and eviction, and when to ask again."""

from __future__ import annotations

import math

from faas.platform.autoscaler import Autoscaler
from faas.platform.decider import ScalingSettings
from faas.platform.demand import Concurrency, Rate
from faas.platform.habits import Habit

REPORT_EVERY_S = 1.0
DECIDE_EVERY_S = 2.0
_MIN_WAIT_S = 0.001  # a date that rounding puts a hair ahead must not be waited for again and again


class Wanted:
    """Measures `concurrency`, or the `rate` where there is one, and decides.

    `habit` are the function's idle times, where they say how long it stays warm. It does not read the clock: times are
    handed in, in seconds.
    """

    def __init__(
        self, settings: ScalingSettings, concurrency: Concurrency, habit: Habit | None, rate: Rate | None = None
    ) -> None:
        self._autoscaler = Autoscaler(settings)
        self._concurrency = concurrency
        self._load = rate or concurrency
        self._habit = habit
        self._floor = 0
        self._floor_until_s = -math.inf
        self._ceiling: int | None = None
        self._report_at_s = self._decide_at_s = math.inf
        self._dozes = False
        self.is_awake = False
        """Whether load is measured: not at zero, where only a request or a date ends the rest."""

    @property
    def least(self) -> int:
        """Instances to have whatever the load."""
        return max(self._autoscaler.settings.min_scale, self._floor)

    def by_hand(self, num_instances: int, until_s: float) -> None:
        """Want at least so many until then."""
        self._floor, self._floor_until_s = num_instances, until_s
        self._ceiling = None

    def evicted(self, num_left: int) -> None:
        """Want no more than are left, until a request comes after a pause, or has to wait."""
        self._ceiling = num_left

    def forget(self, num_ready: int, now_s: float) -> None:
        """Begin without a past: no load, nothing on the way to zero."""
        self._autoscaler.restart(num_ready, now_s)
        self._report_at_s = self._decide_at_s = math.inf
        self.is_awake = self._dozes = False

    def returned(self, now_s: float) -> bool:
        """Take note of a request that comes while there is none; return whether to look at the function at once."""
        if self._habit is not None:
            self._habit.returned(self._idle_s(now_s))
        is_news = self._dozes or self._ceiling is not None
        self._ceiling = None
        return is_news

    def remember(self) -> None:
        """Have the habit know when the function was last busy."""
        if self._habit is not None:
            self._habit.last_s = max(self._habit.last_s, self._concurrency.last_activity_s)

    def measure(self, now_s: float, num_ready: int, *, num_held: int, has_any: bool) -> None:
        """Report the load and decide, each when it is due, or at once for a request that finds no instance.

        `has_any` tells whether an instance takes or will take calls.
        """
        self._wake_up(now_s)
        load, autoscaler = self._load, self._autoscaler
        if num_held:
            self._ceiling = None
        if not self._concurrency.current:
            self.remember()
        if now_s >= self._report_at_s:
            autoscaler.record(now_s, load.report())
            self._report_at_s = now_s + REPORT_EVERY_S
        is_poked = num_held > 0 and not has_any
        if is_poked and autoscaler.scale == 0:
            autoscaler.record(now_s, load.announce())
        if is_poked or now_s >= self._decide_at_s:
            again_at_s = autoscaler.decide(num_ready, now_s)
            later_s = math.inf if self._is_calm else now_s + DECIDE_EVERY_S
            self._decide_at_s = later_s if again_at_s is None else min(later_s, again_at_s)

    def count(self, now_s: float, *, is_proving: bool = False) -> int:
        """Return the instances to have now. What was asked for by hand holds on while a start `is_proving` itself."""
        if now_s >= self._floor_until_s and not is_proving:
            self._floor = 0
        wanted = self._autoscaler.scale
        if self._habit is not None and not self._concurrency.current:
            wanted = self._autoscaler.scale_idle(self._habit.kept, self._idle_s(now_s))
        if self._ceiling is not None:
            wanted = min(wanted, self._ceiling)
        return max(wanted, self.least)

    def wait_s(self, now_s: float, *, is_settled: bool) -> float | None:
        """Return for how long nothing changes unless a request comes; None: never. `is_settled`: all run and are ready.

        Without load there is nothing to measure, and the next date may be far.
        """
        self._dozes = is_settled and self._is_calm
        if not self._dozes:
            return max(0.0, min(self._report_at_s, self._decide_at_s) - now_s)
        dates_s = [self._decide_at_s, self._floor_until_s if self._floor else math.inf]
        wait_s = min(*(date_s - now_s for date_s in dates_s), self.until_warm_s(now_s) or math.inf)
        return None if wait_s == math.inf else max(0.0, wait_s)

    def until_warm_s(self, now_s: float) -> float | None:
        """Seconds until the habit of an idle function may want it warm or let it go; None where nothing is known."""
        if self._habit is None or self._concurrency.current:
            return None
        idle_s = self._idle_s(now_s)
        change_s = self._habit.kept.next_change_s(idle_s)
        return None if change_s is None else max(_MIN_WAIT_S, change_s - idle_s)

    @property
    def _is_calm(self) -> bool:
        return self._autoscaler.is_calm and not self._concurrency.current

    def _wake_up(self, now_s: float) -> None:
        """Begin to measure, or go on with it after a pause: what came before it was looked at is no load."""
        if self.is_awake and not (self._dozes and self._concurrency.current):
            return
        self._load.report()
        self._report_at_s = now_s + REPORT_EVERY_S
        self._decide_at_s = now_s + DECIDE_EVERY_S if self.is_awake else now_s
        self.is_awake, self._dozes = True, False

    def _idle_s(self, now_s: float) -> float:
        """Seconds since the last answer; infinity where there never was one."""
        last_s = self._concurrency.last_activity_s
        return now_s - (last_s if self._habit is None else max(last_s, self._habit.last_s))
