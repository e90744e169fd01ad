"""The one clock: monotonic seconds, behind a seam so that tests own the time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since some fixed moment; never goes back."""

    def __call__(self) -> float:
        """Return the time in seconds."""
        ...


monotonic: Clock = time.monotonic
