"""When a version that could not be loaded is tried again. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Retries:
    """At most `num` more tries, `interval_s` seconds after each failure; a negative interval is no wait."""

    num: int = 5
    interval_s: float = 60.0

    def after(self, num_failures: int, now: float) -> float | None:
        """Return the moment of the next try after so many failures, or None when it is given up."""
        if num_failures > self.num:
            return None
        return now + max(0.0, self.interval_s)
