"""How many come a second, as far as is known at a moment."""

from __future__ import annotations

import math


class Rate:
    """Calls (or rows) a second, each counting less as time goes by: exp(-age / memory_s)."""

    def __init__(self, memory_s: float) -> None:
        self._memory_s = memory_s
        self._value = 0.0
        self._at = -math.inf

    def at(self, now: float) -> float:
        """Return the rate at a moment that is no earlier than the last call."""
        return self._value * math.exp(-(now - self._at) / self._memory_s) if self._value else 0.0

    def count(self, now: float, num: int = 1) -> None:
        """Count `num` that come together."""
        self._value, self._at = self.at(now) + num / self._memory_s, now

    def surely_at(self, now: float) -> float:
        """Return what the rate is at least: two standard deviations less, sqrt(rate / (2 memory_s)) each (Poisson)."""
        rate = self.at(now)
        return rate - 2.0 * math.sqrt(rate / (2.0 * self._memory_s))

    def below_since(self, limit: float, now: float) -> float:
        """Return since when the rate has been at most `limit`, without a call since; infinity if it is above."""
        if self.at(now) > limit:
            return math.inf
        if self._value <= limit:
            return self._at
        return self._at + self._memory_s * math.log(self._value / limit) if limit > 0.0 else math.inf
