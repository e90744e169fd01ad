"""The engine that joins calls into batches: the loop around the queue, the policy and the executor.

Nothing here polls: it looks again when something arrives, when a batch ends, when the lease is granted, or when the
moment comes that the policy named.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from faas.clock import Clock, monotonic
from faas.engine import fixed, refusals
from faas.engine.batch import Report
from faas.engine.concurrency import Concurrency
from faas.engine.deadlines import Deadlines
from faas.engine.executor import Executor
from faas.engine.latency_model import LatencyModel
from faas.engine.levels import Levels
from faas.engine.observer import Observer
from faas.engine.outcomes import settle
from faas.engine.place import Place
from faas.engine.policy import Decision, Outlook, Rules, Run, WaitUntil, decide
from faas.engine.queue import CallQueue
from faas.engine.quiet import STOPPING_S, Quiet
from faas.messages import Call

_CONFIDENT: Final = 3
"""Batches that must have been seen before an item is refused on the latency model's word."""

_HALF_TICK_S: Final = 0.0005
"""A timer may fire this much early, since loops count in milliseconds; to wait again for the rest would be spinning."""

_log = logging.getLogger(__name__)


class Batcher:
    """Plain handlers, and all that are batched. One batch runs at a time on each executor; see `Engine` for the contract.

    `slo_s` is a promise of the function, the call's deadline a limit set by or for its caller. An item that cannot keep
    the promise any more is refused while it waits, or at once where the latency model says so; one that has begun is
    finished, however late. While nothing is in hand nobody is refused, so there is progress whatever was promised.
    """

    def __init__(
        self,
        executors: Sequence[Executor],
        rules: Rules,
        max_queue: int,
        *,
        levels: Levels | None = None,
        form: fixed.Form | None = None,
        clock: Clock = monotonic,
        observer: Observer | None = None,
    ) -> None:
        self.latency = LatencyModel()
        self._places = tuple(Place(executor, self._granted) for executor in executors)
        self._rules = rules
        self._form_of = form
        self._max_queue = max_queue
        self._clock = clock
        self._observer = observer
        self._concurrency = Concurrency(rules.wait_s, rules.max_batch_size)
        self._outlook = Outlook(self._concurrency, self.latency)
        self._queue = CallQueue(self._due, levels=levels)
        self._deadlines = Deadlines(clock, self._expire)
        self._patience = Deadlines(clock, self._late, moment=self._queue.levels.late_at)
        self._num_busy = 0
        self._woken = False
        self._gathering = False
        self._timer: asyncio.TimerHandle | None = None
        self._early_s = 0.0
        self._quiet = Quiet()

    @property
    def num_queued(self) -> int:
        """Calls that wait."""
        return self._queue.num_calls

    @property
    def num_running(self) -> int:
        """Calls in the batches that run, those who left included: their slots are taken until it ends."""
        return sum(len(place.calls) for place in self._places)

    async def start(self) -> None:
        """Nothing to do: the first call starts it."""

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        if self._outlook.ending:
            raise refusals.stopping()
        if call.done:
            return
        now = self._clock()
        self._admit(call, now)
        call.queued_at = now
        call.on_leave = self._dropped
        self._queue.push(call)
        self._deadlines.add(call)
        if self._queue.levels.times_out:
            self._patience.add(call)
        self._wake()

    async def answer(self, call: Call) -> Any:
        """See `Engine`."""
        self.submit(call)
        try:
            return await call.result()
        finally:
            call.leave()

    async def drain(self, grace_s: float) -> None:
        """See `Engine`."""
        self._outlook = dataclasses.replace(self._outlook, ending=True)
        self._wake()
        self._note_quiet()
        if not await self._quiet.within(grace_s):
            self._fail_all(refusals.stopped)

    async def close(self) -> None:
        """See `Engine`."""
        await self.drain(0)
        self._set_timer(None)
        self._deadlines.close()
        self._patience.close()
        for place in self._places:
            place.executor.lease.withdraw(place.granted)
        if any([place.executor.forgo() for place in self._places if place.calls]):
            await self._quiet.within(STOPPING_S)

    def _due(self, call: Call) -> float:
        return min(call.context.deadline, call.queued_at + self._rules.slo_s)

    def _admit(self, call: Call, now: float) -> None:
        num_idle = len(self._places) - self._num_busy
        room = self._max_queue + num_idle * self._rules.max_batch_size
        if len(self._queue) + call.num_rows > room or not self._queue.has_room(call):
            raise refusals.queue_full(len(self._queue), self._ahead_s(now))
        busy = self._num_busy > 0 or len(self._queue) > 0
        if not busy or self._rules.slo_s == math.inf or self.latency.num_observed < _CONFIDENT:
            return
        takes_s, left_s = self._ahead_s(now), min(call.context.deadline - now, self._rules.slo_s)
        if takes_s > left_s:
            raise refusals.unmeetable(takes_s, left_s)

    def _ahead_s(self, now: float) -> float:
        """Return the seconds after which one more item would be answered, by the latency model."""
        seconds, most = self.latency.seconds, self._rules.max_batch_size
        num_before, rest = divmod(len(self._queue), most)
        left_s = [max(0.0, place.since + seconds(place.num_items) - now) if place.calls else 0.0 for place in self._places]
        return min(left_s) + num_before // len(self._places) * seconds(most) + seconds(rest + 1)

    def _wake(self) -> None:
        """Decide after what else arrives in this turn of the loop has arrived."""
        if self._woken:
            return
        for place in self._places:
            if place.is_open:
                self._woken = True
                asyncio.get_running_loop().call_soon(self._consider)
                return

    def _consider(self) -> None:
        self._woken = False
        for place in self._places:
            if place.is_open and len(self._queue):
                place.ask()

    def _granted(self, place: Place) -> None:
        place.asked = False
        try:
            self._form(place)
        except Exception as error:
            self._crashed(place, error)
        if not place.calls:
            place.executor.lease.release()

    def _form(self, place: Place) -> None:
        """Start the batch that the policy asks for, if it asks for one."""
        now = self._clock()
        while not place.calls:
            decision = self._decide(now + self._early_s)
            if isinstance(decision, Run):
                self._note_gathered()
                self._take(place, decision.num_items, now)
                continue
            self._gathering = isinstance(decision, WaitUntil)
            self._set_timer(decision.moment if isinstance(decision, WaitUntil) else None)
            return
        self._set_timer(None)
        place.since = now
        place.executor.start(place.calls, functools.partial(self._ended, place))
        self._num_busy += 1

    def _decide(self, now: float) -> Decision:
        if self._rules.idle == "wait" or self._rules.preferred:
            return fixed.decide(self._queue, self._rules, self._outlook, now, self._form_of)
        return decide(self._queue, self._rules, self._outlook, now)

    def _take(self, place: Place, num_items: int, now: float) -> None:
        """Move calls of up to `num_items` items from the queue to the place, one at least; those who are late end here."""
        most = math.inf
        while num_items > 0 and (call := self._queue.pop(most)) is not None:
            num_items -= call.num_rows
            most = num_items
            if self._queue.levels.times_out:
                self._patience.remove(call)
            if now >= call.context.deadline:
                self._end(call, refusals.expired(call, now))
            elif now >= self._due(call):
                self._end(call, refusals.promise_missed(call, now, self._ahead_s(now)))
            else:
                call.picked_at = now
                place.calls.append(call)

    def _note_gathered(self) -> None:
        if self._gathering:
            self._gathering = False
            self._concurrency.gathered(len(self._queue), oldest_at=self._queue.oldest_at)

    def _ended(self, place: Place, report: Report, error: BaseException | None) -> None:
        """Take in the end of a batch. The next one starts before its answers are handed out."""
        self._concurrency.ended(place.num_items, len(self._queue), self._clock())
        batch, place.calls = place.calls, []
        self._num_busy -= 1
        for size, seconds in report.runs:
            self.latency.observe(size, seconds)
        place.executor.lease.release()
        self._consider()
        try:
            for attempt in report.pending:
                settle(attempt)
            report.pending = []
            if self._observer is not None and report.num_runs:
                self._observer.batch_done(report)
        except Exception:
            _log.exception("the outcomes of a batch could not be handed out")
        cancelled = isinstance(error, asyncio.CancelledError)
        for call in batch:
            self._deadlines.remove(call)
            if not call.done:
                self._end(call, refusals.stopped() if cancelled else refusals.engine_failed(error))
        if error is not None and not cancelled:
            _log.error("a batch of %d failed in the engine", len(batch), exc_info=error)
        self._note_quiet()

    def _expire(self, call: Call) -> None:
        self._end(call, refusals.expired(call, self._clock(), self._places[0].executor.fate))
        self._dropped(call)

    def _late(self, call: Call) -> None:
        """Take in that a call has waited for as long as its level allows."""
        if self._queue.levels.policy(call).timeout_action == "delay":
            self._queue.put_last(call)
            return
        now = self._clock()
        self._end(call, refusals.waited_too_long(call, now, self._ahead_s(now)))
        self._dropped(call)

    def _dropped(self, call: Call) -> None:
        """Take in that a call of ours is done before its batch is."""
        call.ended_at = call.ended_at or self._clock()
        self._deadlines.remove(call)
        if call.picked_at == 0.0:
            self._queue.discard(call)
            self._patience.remove(call)
            self._note_quiet()
            return
        for place in self._places:
            if call in place.calls and all(other.done for other in place.calls):
                place.executor.forgo()

    def _end(self, call: Call, error: BaseException) -> None:
        call.ended_at = self._clock()
        call.fail(error)
        self._deadlines.remove(call)

    def _fail_all(self, make_error: Callable[[], BaseException]) -> None:
        while (call := self._queue.pop()) is not None:
            self._patience.remove(call)
            self._end(call, make_error())
        for place in self._places:
            for call in place.calls:
                if not call.done:
                    self._end(call, make_error())
            if place.calls:
                place.executor.forgo()

    def _crashed(self, place: Place, error: Exception) -> None:
        """Give all that is in hand an outcome after a fault of our own, and go on."""
        _log.error("the engine failed while it formed a batch", exc_info=error)
        self._fail_all(lambda: refusals.engine_failed(error))
        place.calls = []

    def _note_quiet(self) -> None:
        if self._outlook.ending and not self._queue.num_calls and not self.num_running:
            self._quiet.note()

    def _set_timer(self, moment: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._early_s = 0.0
        if moment is not None:
            delay_s = max(0.0, moment - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._early_s = _HALF_TICK_S
        self._consider()
