"""How handlers are called and their values handed over: from the model thread, and on the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

from faas.clock import Clock
from faas.engine.batch import EXHAUSTED, Report
from faas.engine.hop import hop
from faas.engine.outcomes import Attempt, advance, settle
from faas.engine.work import Work
from faas.errors import CallerGone
from faas.messages import Call

MAX_BACKLOG: Final = 1024
"""Events of one stream that may wait for its reader."""

PATIENCE_S: Final = 5.0
"""How long the model thread waits for a reader of its only stream; a reader of several is not waited for."""

_STEPS_UNDER_WAY: Final = 64
_TURN_S: Final = 1e-3

_log = logging.getLogger(__name__)


class ThreadRunner:
    """The `Runner` of the model thread: coroutines that never suspend; where they must wait they block the thread.

    At most `_STEPS_UNDER_WAY` steps are on their way to the loop, so a generator that is faster than the loop, or than
    the reader of its only stream, waits.
    """

    def __init__(self, work: Work, report: Report, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.work = work
        self.report = report
        self.clock = clock
        self._loop = loop
        self._places = threading.Semaphore(_STEPS_UNDER_WAY) if work.streams else None
        self._num_held = 0
        self._holder: asyncio.Task[None] | None = None

    async def call(self, arguments: dict[str, Any]) -> Any:
        """See `Runner`."""
        returned = self._timed(self.work.call, **arguments)
        return iter(returned) if self.work.streams else returned

    async def step(self, source: Iterator[Any]) -> Any:
        """See `Runner`."""
        return self._timed(next, source, EXHAUSTED)

    async def close(self, source: Any) -> None:
        """See `Runner`."""
        try:
            if hasattr(source, "close"):
                source.close()
        except Exception:
            _log.exception("%s raised while it was closed", self.work.title)

    async def answer(self, attempts: list[Attempt]) -> None:
        """See `Runner`."""
        self._hop(_settle_all, attempts)

    async def deliver(self, step: Attempt) -> None:
        """See `Runner`."""
        assert self._places is not None
        self._places.acquire()
        self._hop(self._deliver, step, self._places)

    def stopped(self, error: BaseException) -> bool:
        """See `Runner`."""
        return isinstance(error, LoopGone)

    def _timed(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        began, cpu = self.clock(), time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            self.report.cpu_s += time.thread_time() - cpu
            self.report.exec_s += self.clock() - began

    def _hop(self, callback: Callable[..., None], *args: Any) -> None:
        if not hop(self._loop, callback, *args):
            raise LoopGone

    def _deliver(self, step: Attempt, places: threading.Semaphore) -> None:
        """On the loop: hand the step over, and keep its place while its only reader has no room."""
        advance(step)
        slow = _slow(step)
        if slow and not self.work.batched:
            self._num_held += 1
            if self._holder is None:
                self._holder = self._loop.create_task(self._hold(slow[0], places))
            return
        _give_up(slow, self.clock())
        places.release()

    async def _hold(self, call: Call, places: threading.Semaphore) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await call.room(MAX_BACKLOG)
        except TimeoutError:
            _give_up([call], self.clock())
        finally:
            self._holder = None
            places.release(self._num_held)
            self._num_held = 0


class LoopRunner:
    """The `Runner` of the event loop.

    A generator that computes, and awaits nothing, would have all its events sent at its end: others get their turn
    after an event at least each `_TURN_S`.
    """

    def __init__(self, work: Work, report: Report, clock: Clock) -> None:
        self.work = work
        self.report = report
        self.clock = clock
        self._turn_at = clock()

    async def call(self, arguments: dict[str, Any]) -> Any:
        """See `Runner`."""
        if self.work.streams:
            return aiter(self.work.call(**arguments))
        began = self.clock()
        try:
            return await self.work.call(**arguments)
        finally:
            self.report.exec_s += self.clock() - began

    async def step(self, source: AsyncIterator[Any]) -> Any:
        """See `Runner`."""
        began = self.clock()
        try:
            return await anext(source, EXHAUSTED)
        finally:
            self.report.exec_s += self.clock() - began

    async def close(self, source: Any) -> None:
        """See `Runner`."""
        try:
            if hasattr(source, "aclose"):
                await source.aclose()
        except Exception:
            _log.exception("%s raised while it was closed", self.work.title)

    async def answer(self, attempts: list[Attempt]) -> None:
        """See `Runner`."""
        _settle_all(attempts)

    async def deliver(self, step: Attempt) -> None:
        """See `Runner`."""
        advance(step)
        slow = _slow(step)
        if self.work.batched:
            _give_up(slow, self.clock())
        elif slow:
            await slow[0].room(MAX_BACKLOG)
        if self.clock() - self._turn_at > _TURN_S:
            await asyncio.sleep(0)
            self._turn_at = self.clock()

    def stopped(self, error: BaseException) -> bool:
        """See `Runner`."""
        task = asyncio.current_task()
        return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class LoopGone(Exception):
    """The event loop has closed: nobody waits any more."""


def _settle_all(attempts: list[Attempt]) -> None:
    for attempt in attempts:
        settle(attempt)


def _slow(step: Attempt) -> list[Call]:
    return [call for call in step.calls if call.backlog >= MAX_BACKLOG and not call.done]


def _give_up(calls: list[Call], now: float) -> None:
    for call in calls:
        call.ended_at = now
        call.fail(CallerGone(f"the stream was read too slowly: {call.backlog} events were waiting to be taken"))
