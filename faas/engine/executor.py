"""Where a batch runs: on the model thread, or on the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final, Protocol

from faas.clock import Clock
from faas.engine.batch import EXHAUSTED, Batch, Report, Shape
from faas.engine.outcomes import Attempt, advance, settle
from faas.engine.thread import Lease, ModelThread, hop
from faas.engine.work import Work
from faas.errors import CallerGone
from faas.messages import Call

MOST_BACKLOG: Final = 1024
"""Events of one stream that may wait for its reader."""

PATIENCE_S: Final = 5.0
"""How long the model thread waits for a reader of its only stream; a reader of several is not waited for."""

_STEPS_UNDER_WAY: Final = 64

_log = logging.getLogger(__name__)

Ended = Callable[[Report, BaseException | None], None]


class Executor(Protocol):
    """Runs one batch at a time, while its engine holds `lease`."""

    lease: Lease

    def start(self, calls: list[Call], ended: Ended) -> None:
        """Run the batch; call `ended` on the loop, once, when the handler has really ended.

        `ended` is told of an error where the executor itself failed; calls may then be without an outcome.
        """
        ...

    def forgo(self) -> bool:
        """Say that nobody waits for the running batch any more. Whether it is being cancelled, so that it ends soon."""
        ...


class OnThread:
    """Plain handlers and generators: on the model thread, one batch after another, shared with other engines."""

    def __init__(self, work: Work, shape: Shape, thread: ModelThread, clock: Clock) -> None:
        self.lease = thread.lease
        self._work = work
        self._shape = shape
        self._thread = thread
        self._clock = clock

    def start(self, calls: list[Call], ended: Ended) -> None:
        """See `Executor`."""
        loop = asyncio.get_running_loop()
        report = _report(calls)
        hands = _ThreadHands(self._work, report, loop, self._clock)
        batch = Batch(calls, self._shape, hands)

        def job() -> None:
            error: BaseException | None = None
            try:
                _complete(batch.run())
            except BaseException as raised:
                error = raised
            hop(loop, ended, report, error)

        self._thread.post(job)

    def forgo(self) -> bool:
        """See `Executor`. A thread cannot be stopped; a generator on it looks for itself after each step."""
        return False


class OnLoop:
    """Handlers that await: in one task for the batch."""

    def __init__(self, work: Work, shape: Shape, clock: Clock) -> None:
        self.lease = Lease()
        self._work = work
        self._shape = shape
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self, calls: list[Call], ended: Ended) -> None:
        """See `Executor`."""
        report = _report(calls)
        hands = LoopHands(self._work, report, self._clock)
        batch = Batch(calls, self._shape, hands)
        self._task = asyncio.get_running_loop().create_task(self._run(batch, report, ended))

    def forgo(self) -> bool:
        """See `Executor`."""
        return self._task is not None and self._task.cancel()

    async def _run(self, batch: Batch, report: Report, ended: Ended) -> None:
        error: BaseException | None = None
        try:
            await batch.run()
        except BaseException as raised:
            error = raised
        self._task = None
        ended(report, error)


class _ThreadHands:
    """Coroutines that never suspend: they block the model thread instead."""

    def __init__(self, work: Work, report: Report, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.work = work
        self.report = report
        self.clock = clock
        self._loop = loop
        self._under_way = threading.Semaphore(_STEPS_UNDER_WAY)
        self._waiters: set[asyncio.Task[None]] = set()

    async def call(self, arguments: dict[str, Any]) -> Any:
        began, cpu = self.clock(), time.thread_time()
        try:
            returned = self.work.call(**arguments)
        finally:
            self.report.cpu_s += time.thread_time() - cpu
            self.report.exec_s += self.clock() - began
        return iter(returned) if self.work.streams else returned

    async def step(self, source: Iterator[Any]) -> Any:
        began, cpu = self.clock(), time.thread_time()
        try:
            return next(source, EXHAUSTED)
        finally:
            self.report.cpu_s += time.thread_time() - cpu
            self.report.exec_s += self.clock() - began

    async def close(self, source: Any) -> None:
        try:
            if hasattr(source, "close"):
                source.close()
        except Exception:
            _log.exception("%s raised while it was closed", self.work.title)

    async def answer(self, attempts: list[Attempt]) -> None:
        self._hop(_settle_all, attempts)

    async def deliver(self, step: Attempt) -> None:
        self._under_way.acquire()
        self._hop(self._deliver, step)

    def stopped(self, error: BaseException) -> bool:
        return isinstance(error, LoopGone)

    def _hop(self, callback: Callable[..., None], *args: Any) -> None:
        if not hop(self._loop, callback, *args):
            raise LoopGone

    def _deliver(self, step: Attempt) -> None:
        """On the loop: hand the step over; the thread may go on once its readers have room."""
        advance(step)
        slow = _slow(step)
        if not slow:
            self._under_way.release()
        elif self.work.batched:
            _give_up(slow)
            self._under_way.release()
        else:
            task = self._loop.create_task(self._wait_for(slow[0]))
            self._waiters.add(task)
            task.add_done_callback(self._waiters.discard)

    async def _wait_for(self, call: Call) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await call.room(MOST_BACKLOG)
        except TimeoutError:
            _give_up([call])
        finally:
            self._under_way.release()


class LoopHands:
    """Coroutines of the event loop."""

    def __init__(self, work: Work, report: Report, clock: Clock) -> None:
        self.work = work
        self.report = report
        self.clock = clock

    async def call(self, arguments: dict[str, Any]) -> Any:
        """See `Hands`."""
        if self.work.streams:
            return aiter(self.work.call(**arguments))
        return await self._timed(self.work.call(**arguments))

    async def step(self, source: AsyncIterator[Any]) -> Any:
        """See `Hands`."""
        return await self._timed(anext(source, EXHAUSTED))

    async def close(self, source: Any) -> None:
        """See `Hands`."""
        try:
            if hasattr(source, "aclose"):
                await source.aclose()
        except Exception:
            _log.exception("%s raised while it was closed", self.work.title)

    async def answer(self, attempts: list[Attempt]) -> None:
        """See `Hands`."""
        _settle_all(attempts)

    async def deliver(self, step: Attempt) -> None:
        """See `Hands`."""
        advance(step)
        slow = _slow(step)
        if self.work.batched:
            _give_up(slow)
        elif slow:
            await slow[0].room(MOST_BACKLOG)

    def stopped(self, error: BaseException) -> bool:
        """See `Hands`."""
        task = asyncio.current_task()
        return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0

    async def _timed(self, awaitable: Any) -> Any:
        began = self.clock()
        try:
            return await awaitable
        finally:
            self.report.exec_s += self.clock() - began


class LoopGone(Exception):
    """The event loop has closed: nobody waits any more."""


def _report(calls: list[Call]) -> Report:
    return Report(len(calls), sum(call.picked_at - call.queued_at for call in calls))


def _complete(coroutine: Coroutine[Any, Any, None]) -> None:
    """Drive a coroutine that never suspends to its end."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("a batch on the model thread awaited something")


def _settle_all(attempts: list[Attempt]) -> None:
    for attempt in attempts:
        settle(attempt)


def _slow(step: Attempt) -> list[Call]:
    return [call for call in step.calls if call.backlog >= MOST_BACKLOG and not call.done]


def _give_up(calls: list[Call]) -> None:
    for call in calls:
        call.fail(CallerGone(f"the stream was read too slowly: {call.backlog} events were waiting to be taken"))
