"""What goes on beside the calls, and who waits for it: tasks, one alarm, and word of every change."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Any

from faas.clock import Clock

logger = logging.getLogger(__name__)


class Agenda:
    """Belongs to the event loop's thread; can be made before there is a loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the rest."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def note(self) -> None:
        """Say that something has changed."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def change(self) -> None:
        """Wait until something changes."""
        await self._changed.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds; it is asked again after every change."""
        while not condition():
            await self.change()

    def wake_at(self, moment: float, do: Callable[[], None]) -> None:
        """Do something at a moment, and not what was to be done before; infinity is never."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if moment < math.inf:
            self._alarm = asyncio.get_running_loop().call_later(max(0.0, moment - self._clock()), do)

    async def close(self) -> None:
        """Begin nothing more, and end what has begun."""
        self.wake_at(math.inf, lambda: None)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("what went on beside the calls failed", exc_info=error)
