"""Who blocks the event loop: its lag measured from a thread of its own, and the frame that causes it logged."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from faas.clock import Clock, monotonic

logger = logging.getLogger(__name__)

EVERY_S: Final = 1.0
BLOCKED_S: Final = 0.25


class Watchdog:
    """Asks the loop for a sign of life every `every_s` seconds; after `blocked_s` without one, says what it is doing.

    `lag(seconds)` is told, on the loop, how late each sign came. A blocked loop is logged once, then again when it
    runs. Nothing but a clock can tell that somebody is late, so this thread wakes by the clock.
    """

    def __init__(
        self,
        lag: Callable[[float], None],
        *,
        every_s: float = EVERY_S,
        blocked_s: float = BLOCKED_S,
        clock: Clock = monotonic,
    ) -> None:
        self._lag = lag
        self._every_s = every_s
        self._blocked_s = blocked_s
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._closed = threading.Event()
        self._sign = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin, from the loop's own thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._sign.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(self._every_s):
            self._sign.clear()
            asked_at = self._clock()
            try:
                self._loop.call_soon_threadsafe(self._answer, asked_at)
            except RuntimeError:  # the loop is closed
                return
            if not self._sign.wait(self._blocked_s):
                logger.warning("the event loop is blocked, and with it every answer; it is at:\n%s", self._where())
                self._sign.wait()
                logger.warning("the event loop was blocked for %.2f s", self._clock() - asked_at)

    def _answer(self, asked_at: float) -> None:
        self._lag(self._clock() - asked_at)
        self._sign.set()

    def _where(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)
        return "".join(traceback.format_stack(frame)[-4:]) if frame is not None else "(gone)"
