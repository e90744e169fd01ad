"""One timer that is set again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from faas.clock import Clock

_HALF_TICK_S: Final = 0.0005
"""A timer may fire this early, since loops count in milliseconds: to set it again for the rest would be spinning."""


class Alarm:
    """Calls `ring()` on the loop at the moment that it was last set to.

    While `ring` runs, `early_s` is how long before that moment it may have been called.
    """

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self.early_s = 0.0
        self._clock = clock
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, moment: float | None) -> None:
        """Ring at `moment`, and at no earlier one that it was set to; None: not at all."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self.early_s = 0.0
        if moment is not None:
            delay_s = max(0.0, moment - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.early_s = _HALF_TICK_S
        self._ring()
