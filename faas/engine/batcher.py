"""The engine that joins calls into batches: the loop around the queue, the policy and the executor.

Nothing here polls: it looks again when something arrives, when a batch ends, when the lease is granted, or when the
moment comes that the policy named.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence

from faas.clock import Clock, monotonic
from faas.engine import edf, fixed, refusals
from faas.engine.admission import Admission
from faas.engine.alarm import Alarm
from faas.engine.batch import Report
from faas.engine.deadlines import Deadlines, deadline
from faas.engine.engine import Engine
from faas.engine.executor import Executor
from faas.engine.last_moment import LastMoment
from faas.engine.latency_model import LatencyModel
from faas.engine.levels import Levels
from faas.engine.line import Line
from faas.engine.observer import Observer
from faas.engine.place import Place
from faas.engine.policy import GiveUp, Rules, Run, WaitUntil
from faas.engine.queue import CallQueue, by_arrival
from faas.engine.quiet import STOPPING_S, Quiet
from faas.engine.strategy import Strategy
from faas.engine.watches import Watches
from faas.errors import FaasError
from faas.messages import Call

_log = logging.getLogger(__name__)


class Batcher(Engine):
    """Plain handlers, and all that are batched. One batch at a time runs on each executor; see `Engine` for the rest.

    `slo_s` is a promise of the function, the call's deadline a limit set by or for its caller. With a promise calls
    leave in the order of their deadlines, as `in_time` has it, and `latency` is then what is known of batches. An item
    that cannot be in time any more is refused at that moment, or at once where that is foreseen; one that has begun is
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
        self._slo_s = rules.slo_s
        self._due = deadline if rules.slo_s == math.inf else self._promised
        self._places = tuple(Place(executor, self._granted, self._ended) for executor in executors)
        self._clock = clock
        self._observer = observer
        self._queue = CallQueue(self._due, levels=levels, order=self._due if rules.slo_s < math.inf else by_arrival)
        self._strategy = Strategy(self._queue, rules, form, latency)
        self._admission = Admission(self._queue, self._places, max_queue, self._strategy)
        self._deadlines = Deadlines(clock, self._expire)
        self._watches = Watches(self._queue, self._admission, clock, self._refuse, is_promised=rules.slo_s < math.inf)
        self._num_busy = 0
        self._woken = False
        self._alarm = Alarm(clock, self._consider)
        self._last_moment = LastMoment(clock, self._hopeless_at, self._give_up)
        self._quiet = Quiet()

    @property
    def max_batch_size(self) -> int:
        """The most items of a batch: as many as were set, or as memory suffices for."""
        return self._strategy.rules.max_batch_size

    @property
    def latency(self) -> LatencyModel | Line:
        """What is known of its batches: quantiles where something is promised, else a line."""
        return self._strategy.latency

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
        return self._admission.pending_s(num_more, self._clock())

    async def start(self) -> None:
        """Nothing to do: the first call starts it."""

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        if self._strategy.ending:
            raise refusals.stopping()
        if call.done:
            return
        now = call.queued_at = self._clock()
        try:
            self._admission.check(call, self._num_busy, now)
        except FaasError:
            call.queued_at = 0.0
            raise
        call.on_leave = self._dropped
        self._queue.push(call)
        self._deadlines.add(call)
        self._watches.add(call)
        self._wake()
        if self._strategy.promise is not None:
            self._last_moment.look()

    async def drain(self, grace_s: float) -> None:
        """See `Engine`."""
        self._strategy.end()
        self._wake()
        self._note_quiet()
        if not await self._quiet.within(grace_s):
            self._fail_all(refusals.stopped)

    async def close(self) -> None:
        """See `Engine`."""
        await self.drain(0)
        self._alarm.set(None)
        self._last_moment.close()
        self._deadlines.close()
        self._watches.close()
        for place in self._places:
            place.executor.lease.withdraw(place.granted)
        ending = [place.executor.forgo() for place in self._places if place.calls]
        if any(ending):
            await self._quiet.within(STOPPING_S)

    def _promised(self, call: Call) -> float:
        return min(call.context.deadline, call.queued_at + self._slo_s)

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
        turn = None if self._strategy.promise is None else self._turn
        for place in self._places:
            if place.is_open and len(self._queue):
                place.ask(turn)
        if turn is not None:
            self._last_moment.look()

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
            decision = self._strategy.decide(now + self._alarm.early_s)
            if isinstance(decision, Run):
                self._take(place, decision, now)
            elif isinstance(decision, GiveUp):
                self._give_up(now)
            else:
                self._alarm.set(decision.moment if isinstance(decision, WaitUntil) else None)
                return
        self._alarm.set(None)
        place.since = now
        self._num_busy += 1
        place.executor.start(place.calls, place.ended)

    def _turn(self, asked_at: float) -> float:
        """Say when it should be the turn of this engine. Those who cannot be in time are told, for a place is free."""
        planned, now = None, self._clock()
        try:
            while len(self._queue) and planned is None:
                planned = self._strategy.plan(now)
                if planned is None:
                    self._give_up(now)
        except Exception as error:
            self._crashed(error)
        return edf.turn(planned, asked_at)

    def _hopeless_at(self) -> float:
        """Return when the next call is to be given up though nothing is free; where something is, the rule decides."""
        if any(place.is_open for place in self._places):
            return math.inf
        return self._admission.hopeless_at(self._num_busy, self._clock())

    def _give_up(self, now: float) -> None:
        """Refuse the next call, since its answer would come too late."""
        call = self._queue.pop()
        assert call is not None
        self._watches.remove(call)
        self._end(call, self._admission.refusal(call, now))

    def _take(self, place: Place, run: Run, now: float) -> None:
        """Move the calls of a batch from the queue to the place, one at least; those who are late end here."""
        num_items, most = run.num_items, math.inf
        while num_items > 0 and (call := self._queue.pop(most)) is not None:
            num_items -= call.num_rows
            most = num_items
            self._watches.remove(call)
            if now >= call.context.deadline or (now >= self._due(call) and not run.late):
                self._end(call, self._admission.refusal(call, now))
            else:
                call.picked_at = now
                place.calls.append(call)

    def _ended(self, place: Place, report: Report, error: BaseException | None) -> None:
        """Take in the end of a batch. The next one starts before its answers are handed out."""
        now = self._clock()
        self._strategy.ended(place.num_items, report, now - place.since, now)
        batch, place.calls = place.calls, []
        self._num_busy -= 1
        self._consider()  # before others get the device: whose turn it is is then decided among all
        place.executor.lease.release()
        try:
            report.hand_out()
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
        self._refuse(call, refusals.expired(call, self._clock(), self._places[0].executor.fate))

    def _refuse(self, call: Call, error: BaseException) -> None:
        self._end(call, error)
        self._dropped(call)

    def _dropped(self, call: Call) -> None:
        """Take in that a call of ours is done before its batch is."""
        call.ended_at = call.ended_at or self._clock()
        self._deadlines.remove(call)
        if call.picked_at == 0.0:
            self._queue.discard(call)
            self._watches.remove(call)
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
            self._watches.remove(call)
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
        if self._strategy.ending and not self._queue.num_calls and not self.num_running:
            self._quiet.note()
