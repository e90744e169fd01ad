"""Calls that wait and can no longer be in time are refused at that moment, whatever still runs ahead of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from faas.clock import Clock
from faas.engine.alarm import Alarm


class LastMoment:
    """Calls `give_up(now)` once the moment has come, and until it is a later one.

    `moment()` says when what waits next is to be given up, infinity for never. It is asked again by `look`, and when
    it comes: that it has moved on meanwhile need not be told.
    """

    def __init__(self, clock: Clock, moment: Callable[[], float], give_up: Callable[[float], None]) -> None:
        self._clock = clock
        self._moment = moment
        self._give_up = give_up
        self._alarm = Alarm(clock, self._come)
        self._at = math.inf

    def look(self) -> None:
        """Take in that the moment may have become an earlier one."""
        moment = self._moment()
        if moment < self._at:
            self._set(moment)

    def close(self) -> None:
        """Watch no longer."""
        self._set(math.inf)

    def _come(self) -> None:
        now, self._at = self._clock() + self._alarm.early_s, math.inf
        while (moment := self._moment()) <= now:
            self._give_up(now)
        self._set(moment)

    def _set(self, moment: float) -> None:
        self._at = moment
        self._alarm.set(None if moment == math.inf else moment)
