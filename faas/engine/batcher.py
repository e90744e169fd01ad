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
from faas.engine import edf, fixed, in_time, refusals
from faas.engine.admission import Admission
from faas.engine.batch import Report
from faas.engine.cap import Cap
from faas.engine.concurrency import Concurrency
from faas.engine.deadlines import Deadlines
from faas.engine.executor import Executor
from faas.engine.latency_model import LatencyModel
from faas.engine.levels import Levels
from faas.engine.line import Line
from faas.engine.observer import Observer
from faas.engine.outcomes import settle
from faas.engine.place import Place
from faas.engine.policy import IDLE, Decision, GiveUp, Outlook, Rules, Run, WaitUntil, decide
from faas.engine.queue import CallQueue, by_arrival
from faas.engine.quiet import STOPPING_S, Quiet
from faas.errors import FaasError
from faas.messages import Call

_HALF_TICK_S: Final = 0.0005
"""A timer may fire this much early, since loops count in milliseconds; to wait again for the rest would be spinning."""

_log = logging.getLogger(__name__)


class Batcher:
    """Plain handlers, and all that are batched. One batch runs at a time on each executor; see `Engine` for the contract.

    `slo_s` is a promise of the function, the call's deadline a limit set by or for its caller. With a promise calls
    leave in the order of their deadlines, as `in_time` has it, and `latency` is then what is known of batches. An item
    that cannot be in time any more is refused while it waits, or at once where that is foreseen; one that has begun is
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
        latency: LatencyModel | None = None,
        clock: Clock = monotonic,
        observer: Observer | None = None,
    ) -> None:
        promised = rules.slo_s < math.inf
        known = latency or LatencyModel()
        self.latency: LatencyModel | Line = known if promised else Line()
        self._promise = in_time.Promise(rules.slo_s, rules.max_batch_size, known) if promised else None
        self._places = tuple(Place(executor, self._granted) for executor in executors)
        self._rules = rules
        self._form_of = form
        self._clock = clock
        self._observer = observer
        self._concurrency = Concurrency(rules.wait_s, rules.max_batch_size)
        self._outlook = Outlook(self._concurrency, self.latency)
        self._queue = CallQueue(self._due, levels=levels, order=self._due if promised else by_arrival)
        self._admission = Admission(self._queue, self._places, rules, max_queue, self.latency)
        self._deadlines = Deadlines(clock, self._expire)
        self._patience = Deadlines(clock, self._late, moment=self._queue.levels.late_at)
        self._cap: Cap | None = None
        self._num_busy = 0
        self._woken = False
        self._gathering = False
        self._timer: asyncio.TimerHandle | None = None
        self._early_s = 0.0
        self._quiet = Quiet()

    @property
    def max_batch_size(self) -> int:
        """The most items of a batch: as many as were set, or as memory suffices for."""
        return self._rules.max_batch_size

    @property
    def num_queued(self) -> int:
        """Calls that wait."""
        return self._queue.num_calls

    @property
    def num_running(self) -> int:
        """Calls in the batches that run, those who left included: their slots are taken until it ends."""
        return sum(len(place.calls) for place in self._places)

    def pending_s(self, num_more: int = 0) -> float:
        """Return the seconds in which all that is in hand, and `num_more` more rows, will have been answered.

        For batchers with a promise.
        """
        assert self._promise is not None
        return self._admission.pending_s(self._promise, num_more, self._clock())

    async def start(self) -> None:
        """Nothing to do: the first call starts it."""

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        if self._outlook.ending:
            raise refusals.stopping()
        if call.done:
            return
        now = call.queued_at = self._clock()
        try:
            self._admission.check(call, self._num_busy, now)
            if self._promise is not None:
                self._admission.check_in_time(call, self._promise, self._num_busy, now)
        except FaasError:
            call.queued_at = 0.0
            raise
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
        turn = None if self._promise is None else self._turn
        for place in self._places:
            if place.is_open and len(self._queue):
                place.ask(turn)

    def _granted(self, place: Place) -> None:
        place.asked = False
        try:
            self._form(place)
        except Exception as error:
            self._crashed(error)
            place.calls = []
        if not place.calls:
            place.executor.lease.release()

    def _form(self, place: Place) -> None:
        """Start the batch that the policy asks for, if it asks for one."""
        now = self._clock()
        while not place.calls:
            decision = self._decide(now + self._early_s)
            if isinstance(decision, Run):
                self._note_gathered()
                self._take(place, decision, now)
                continue
            if isinstance(decision, GiveUp):
                self._give_up(now)
                continue
            self._gathering = isinstance(decision, WaitUntil)
            self._set_timer(decision.moment if isinstance(decision, WaitUntil) else None)
            return
        self._set_timer(None)
        place.since = now
        place.executor.start(place.calls, functools.partial(self._ended, place))
        self._num_busy += 1

    def _decide(self, now: float) -> Decision:
        if self._promise is None:
            return self._decide_by_rule(now)
        if not len(self._queue):
            return IDLE
        planned = in_time.plan(self._queue, self._promise, self._concurrency.idle_since, now)
        return in_time.decide(len(self._queue), planned, lambda: self._decide_by_rule(now), now)

    def _decide_by_rule(self, now: float) -> Decision:
        if self._rules.idle == "wait" or self._rules.preferred:
            return fixed.decide(self._queue, self._rules, self._outlook, now, self._form_of)
        return decide(self._queue, self._rules, self._outlook, now)

    def _turn(self, asked_at: float) -> float:
        """Say when it should be the turn of this engine. Those who cannot be in time are told, for a place is free."""
        assert self._promise is not None
        planned, now = None, self._clock()
        try:
            while len(self._queue) and planned is None:
                planned = in_time.plan(self._queue, self._promise, self._concurrency.idle_since, now)
                if planned is None:
                    self._give_up(now)
        except Exception as error:
            self._crashed(error)
        return edf.turn(planned, asked_at)

    def _give_up(self, now: float) -> None:
        """Refuse the next call, since its answer would come too late."""
        call = self._queue.pop()
        assert call is not None
        if self._queue.levels.times_out:
            self._patience.remove(call)
        self._end(call, self._admission.refusal(call, now))

    def _take(self, place: Place, run: Run, now: float) -> None:
        """Move the calls of a batch from the queue to the place, one at least; those who are late end here."""
        num_items, most = run.num_items, math.inf
        while num_items > 0 and (call := self._queue.pop(most)) is not None:
            num_items -= call.num_rows
            most = num_items
            if self._queue.levels.times_out:
                self._patience.remove(call)
            if now >= call.context.deadline or (now >= self._due(call) and not run.late):
                self._end(call, self._admission.refusal(call, now))
            else:
                call.picked_at = now
                place.calls.append(call)

    def _note_gathered(self) -> None:
        if self._gathering:
            self._gathering = False
            self._concurrency.gathered(len(self._queue), oldest_at=self._queue.oldest_at)

    def _ended(self, place: Place, report: Report, error: BaseException | None) -> None:
        """Take in the end of a batch. The next one starts before its answers are handed out."""
        now = self._clock()
        self._concurrency.ended(place.num_items, len(self._queue), now)
        batch, place.calls = place.calls, []
        self._num_busy -= 1
        self._learn(report, now - place.since)
        if report.exhausted_at or self._cap is not None:
            self._learn_memory(report)
        self._consider()  # before others get the device: whose turn it is is then decided among all
        place.executor.lease.release()
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

    def _learn(self, report: Report, took_s: float) -> None:
        if self._promise is not None and len(report.runs) == 1:  # the way to the thread and back is part of being late
            self.latency.observe(report.runs[0][0], took_s)
            return
        for size, seconds in report.runs:
            self.latency.observe(size, seconds)

    def _learn_memory(self, report: Report) -> None:
        """Take in for which sizes memory sufficed. Nothing is counted until it did not for one."""
        cap = self._cap = self._cap or Cap(self._rules.max_batch_size, self._rules.allowed)
        for size, _ in report.runs:
            cap.went_well(size)
        if report.exhausted_at:
            cap.exhausted(report.exhausted_at)
            _log.warning("memory ran out in a batch of %d; batches hold %d at most", report.exhausted_at, cap.limit)
        if cap.limit != self._rules.max_batch_size:
            self._rules = dataclasses.replace(self._rules, max_batch_size=cap.limit)
            if self._promise is not None:
                self._promise = dataclasses.replace(self._promise, max_batch_size=cap.limit)

    def _expire(self, call: Call) -> None:
        self._end(call, refusals.expired(call, self._clock(), self._places[0].executor.fate))
        self._dropped(call)

    def _late(self, call: Call) -> None:
        """Take in that a call has waited for as long as its level allows."""
        if self._queue.levels.policy(call).timeout_action == "delay":
            self._queue.put_last(call)
            return
        now = self._clock()
        self._end(call, refusals.waited_too_long(call, now, self._admission.clears_in_s(now)))
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

    def _crashed(self, error: Exception) -> None:
        """Give all that is in hand an outcome after a fault of our own, and go on."""
        _log.error("the engine failed while it formed a batch", exc_info=error)
        self._fail_all(lambda: refusals.engine_failed(error))

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
