"""The engine of `async def` handlers without batching: many at once on the event loop, a bounded queue behind them."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any, Final

from faas.clock import Clock, monotonic
from faas.engine import refusals
from faas.engine.batch import Batch, Report, Shape
from faas.engine.deadlines import Deadlines, deadline
from faas.engine.gradients import set_gradients
from faas.engine.outcomes import Raised, as_raised, end, presentable
from faas.engine.owned import owned
from faas.engine.queue import CallQueue
from faas.engine.quiet import STOPPING_S, Quiet
from faas.engine.runners import LoopRunner
from faas.engine.work import Work
from faas.messages import Call

_LATEST: Final = 0.05
"""The weight of the latest call in the mean time of a call."""


class Direct:
    """At most `max_inputs` at once; see `Engine` for the contract.

    `answer` runs the handler in the task that awaits it: no task and no switch where the answer is at hand.
    """

    def __init__(self, work: Work, max_inputs: int, max_queue: int, *, clock: Clock = monotonic) -> None:
        self._work = work
        self._max_inputs = max_inputs
        self._max_queue = max_queue
        self._clock = clock
        self._queue = CallQueue(deadline)
        self._deadlines = Deadlines(clock, self._expire)
        self._running: dict[Call, asyncio.Task[Any]] = {}
        self._stopped: set[Call] = set()
        self._mean_s = 0.0
        self._ending = False
        self._quiet = Quiet()

    @property
    def num_queued(self) -> int:
        """Calls that wait for a place."""
        return len(self._queue)

    @property
    def num_running(self) -> int:
        """Calls whose handler runs."""
        return len(self._running)

    async def start(self) -> None:
        """Nothing to do."""

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        if self._ending:
            raise refusals.stopping()
        if call.done:
            return
        if len(self._running) >= self._max_inputs and len(self._queue) >= self._max_queue:
            clears_in_s = self._mean_s * (len(self._queue) + 1) / self._max_inputs
            raise refusals.queue_full(len(self._queue), clears_in_s)
        call.queued_at = self._clock()
        call.on_leave = self._dropped
        call.scope = contextvars.copy_context()
        self._deadlines.add(call)
        self._queue.push(call)
        self._fill()

    async def answer(self, call: Call) -> Any:
        """See `Engine`."""
        task = asyncio.current_task()
        if self._ending or call.done or task is None or len(self._running) >= self._max_inputs:
            self.submit(call)
            try:
                return await call.result()
            finally:
                call.leave()
        call.queued_at = call.picked_at = self._clock()
        call.on_leave = self._dropped
        self._deadlines.add(call)
        self._running[call] = task
        await self._compute(call)
        return await call.result()

    async def drain(self, grace_s: float) -> None:
        """See `Engine`."""
        self._ending = True
        self._note_quiet()
        if not await self._quiet.within(grace_s):
            self._fail_all()

    async def close(self) -> None:
        """See `Engine`."""
        await self.drain(0)
        await self._quiet.within(STOPPING_S)
        self._deadlines.close()

    def _fill(self) -> None:
        """Start what waits, as far as there are places."""
        while len(self._running) < self._max_inputs and (call := self._queue.pop()) is not None:
            call.picked_at = self._clock()
            self._running[call] = asyncio.get_running_loop().create_task(self._compute(call), context=call.scope)

    async def _compute(self, call: Call) -> None:
        """Run the handler in the current task, which is the call's in `_running`, and give the call its outcome."""
        call.started_at, call.batch_size = self._clock(), 1
        set_gradients(self._work.grad)
        try:
            if call.done:
                return
            if self._work.streams:
                await self._stream(call)
            else:
                value = await self._work.call(**self._work.arguments((call,)))
                self._end(call, owned(value))
        except asyncio.CancelledError as error:
            if self._running[call].cancelling() > (call in self._stopped):  # somebody else cancels the task as well
                call.on_leave = None
                call.leave()
                raise
            self._end(call, Raised(presentable(error)))
        except BaseException as error:
            self._end(call, Raised(presentable(as_raised(error))))
        finally:
            self._finished(call)

    async def _stream(self, call: Call) -> None:
        report = Report(1)
        await Batch([call], Shape(isolate=False), LoopRunner(self._work, report, self._clock)).run()
        for attempt in report.pending:
            self._end(call, attempt.values[0])

    def _finished(self, call: Call) -> None:
        task = self._running.pop(call)
        self._deadlines.remove(call)
        self._mean_s += _LATEST * (self._clock() - call.started_at - self._mean_s)
        if call in self._stopped:
            self._stopped.discard(call)
            task.uncancel()  # it was our own doing, and nothing that whoever awaits the task should see
        if self._queue.num_calls:
            self._fill()
        self._note_quiet()

    def _end(self, call: Call, value: Any) -> None:
        if not call.done:
            call.ended_at = self._clock()
            end(call, value)

    def _expire(self, call: Call) -> None:
        self._end(call, Raised(refusals.expired(call, self._clock())))
        self._dropped(call)

    def _dropped(self, call: Call) -> None:
        """Take in that a call is done before its handler is."""
        call.ended_at = call.ended_at or self._clock()
        self._deadlines.remove(call)
        if call.picked_at == 0.0:
            self._queue.discard(call)
            self._note_quiet()
        elif call.started_at > 0.0:  # a task that has not begun would never get to its `finally`
            self._stopped.add(call)
            self._running[call].cancel()

    def _fail_all(self) -> None:
        while (call := self._queue.pop()) is not None:
            self._end(call, Raised(refusals.stopped()))
        for call in list(self._running):
            if not call.done:
                self._end(call, Raised(refusals.stopped()))
                self._dropped(call)

    def _note_quiet(self) -> None:
        if self._ending and not self._running and not len(self._queue):
            self._quiet.note()
