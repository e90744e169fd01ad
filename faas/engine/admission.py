"""Who is let into an engine's queue, and how calls are refused that cannot be served in time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from faas.engine import edf, refusals
from faas.engine.in_time import Promise
from faas.engine.place import Place
from faas.engine.queue import CallQueue
from faas.engine.rate import Rate
from faas.engine.strategy import Strategy
from faas.errors import FaasError
from faas.messages import Call


class Admission:
    """The door to one engine's queue. What it foresees it has from the latency model."""

    def __init__(self, queue: CallQueue, places: Sequence[Place], max_queue: int, strategy: Strategy) -> None:
        self._queue = queue
        self._places = places
        self._max_queue = max_queue
        self._strategy = strategy
        self._latest_due = -math.inf
        self._refused_at = -math.inf
        self._rate = Rate(strategy.rules.slo_s)

    def check(self, call: Call, num_busy: int, now: float) -> None:
        """Let a call in, with `num_busy` places running something.

        Raises:
            QueueFull: there is no room.
            DeadlineUnmeetable: something is promised, and cannot be kept.
        """
        num_idle = len(self._places) - num_busy
        room = self._max_queue + num_idle * self._strategy.rules.max_batch_size
        if len(self._queue) + call.num_rows > room or not self._queue.has_room(call):
            raise refusals.queue_full(len(self._queue), self.clears_in_s(now))
        if self._strategy.promise is not None:
            self._check_in_time(call, self._strategy.promise, num_busy, now)

    def _check_in_time(self, call: Call, promise: Promise, num_busy: int, now: float) -> None:
        """Refuse a call that cannot be answered in time, unless nothing is in hand.

        Who waits is taken to leave before it. That is right where all were promised the same; where the call would be
        refused, and may go before some of them, those are looked at one by one.
        """
        due = self._queue.due(call)
        self._rate.count(now, call.num_rows)
        if (num_busy or len(self._queue)) and promise.latency.is_confident:
            takes_s = self._answered_in_s(len(self._queue), call, promise, now)
            if takes_s > due - now and (due < self._latest_due or self._queue.levels.num_levels > 1):
                takes_s = self._answered_in_s(self._queue.num_before(call), call, promise, now)
            if takes_s > due - now:
                self._note_refused(call, now)
                raise self._unmeetable(call, takes_s, now)
        self._latest_due = max(self._latest_due, due)

    def hopeless_at(self, num_busy: int, now: float) -> float:
        """Return when the next call is to be given up, with `num_busy` places running something and none free."""
        return self._strategy.hopeless_at(is_busy=num_busy > 0, surplus=self._surplus(now))

    def refusal(self, call: Call, now: float) -> FaasError:
        """Return what a call gets that has left the queue and is not computed, since it would be too late."""
        if now >= call.context.deadline:
            return refusals.expired(call, now)
        self._note_refused(call, now)
        due = self._queue.due(call)
        if now >= due:
            return refusals.promise_missed(call, now, self.clears_in_s(now))
        takes_s = self._free_in_s(now) + self._batch_s(call)
        if takes_s > due - now:
            return self._unmeetable(call, takes_s, now)
        own = due == call.context.deadline
        return refusals.last_moment(call, now, due - now, self.clears_in_s(now), own=own)

    def clears_in_s(self, now: float) -> float:
        """Return the seconds after which one more item would be answered, behind all that waits."""
        num_ahead, most = len(self._queue) // len(self._places), self._strategy.rules.max_batch_size
        return self._free_in_s(now) + edf.backlog_s(num_ahead + 1, most, self._strategy.latency.seconds)

    def pending_s(self, num_more: int, now: float) -> float:
        """Return the seconds in which all that is in hand, and `num_more` more rows, will have been answered.

        In batches of the size that is aimed at, where something is promised.
        """
        promise = self._strategy.promise
        assert promise is not None
        limits, num_rows = promise.limits(), len(self._queue) // len(self._places) + num_more
        return self._free_in_s(now) + edf.backlog_s(num_rows, limits.target, limits.seconds)

    def _answered_in_s(self, num_ahead: int, call: Call, promise: Promise, now: float) -> float:
        """Return the seconds until the answer to a call behind `num_ahead` rows.

        With a surplus it may still be part of the next batch if that, with all who are ahead, is in time for the first
        of them: it grows then.
        """
        free_s, ahead, is_pressed = self._free_in_s(now), num_ahead // len(self._places), self._surplus(now) > 0.0
        if is_pressed and ahead:
            together_s = free_s + promise.together_s(max(ahead + call.num_rows, promise.target))
            if together_s <= min(self._queue.head_due, self._queue.due(call)) - now:
                return together_s
        return free_s + promise.answered_in_s(ahead, call.num_rows, fills=is_pressed)

    def _surplus(self, now: float) -> float:
        """Return the share of arrivals that is more than batches of the size that is aimed at can take.

        0.0 where nobody was refused within the time of two such batches: a rate alone says little. A single refusal may
        be due to one slow batch.
        """
        promise = self._strategy.promise
        if promise is None or now - self._refused_at >= self._strategy.rules.slo_s:
            return 0.0
        come = self._rate.at(now) * self._strategy.latency.seconds(promise.target)
        return max(0.0, 1.0 - promise.target * len(self._places) / come) if come else 0.0

    def _note_refused(self, call: Call, now: float) -> None:
        """Take in that a call is refused; its own limit says nothing of the load."""
        if self._queue.due(call) < call.context.deadline:
            self._refused_at = now

    def _batch_s(self, call: Call) -> float:
        """Return the seconds of the batch that a call would have been part of, at the head of what waits."""
        promise = self._strategy.promise
        if promise is None:
            return self._strategy.latency.seconds(call.num_rows)
        limits = promise.limits()
        return limits.seconds(edf.aim(call.num_rows, len(self._queue) + call.num_rows, limits))

    def _free_in_s(self, now: float) -> float:
        """Return the seconds after which the first of the places has ended what it runs."""
        seconds = self._strategy.latency.seconds
        return min(
            max(0.0, place.since + seconds(place.num_items) - now) if place.calls else 0.0 for place in self._places
        )

    def _unmeetable(self, call: Call, takes_s: float, now: float) -> FaasError:
        due = self._queue.due(call)
        own = due == call.context.deadline
        return refusals.unmeetable(takes_s, due - now, self.clears_in_s(now), own=own)
