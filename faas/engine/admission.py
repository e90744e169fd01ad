"""Who is let into an engine's queue, and what those are told who are not served in time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from faas.engine import edf, refusals
from faas.engine.in_time import Promise
from faas.engine.place import Place
from faas.engine.policy import Latency, Rules
from faas.engine.queue import CallQueue
from faas.errors import FaasError
from faas.messages import Call


class Admission:
    """The door to one engine's queue. What it foresees it has from the latency model."""

    def __init__(
        self, queue: CallQueue, places: Sequence[Place], rules: Rules, max_queue: int, latency: Latency
    ) -> None:
        self._queue = queue
        self._places = places
        self._max_queue = max_queue
        self._max_batch_size = rules.max_batch_size
        self._latency = latency
        self._latest_due = -math.inf

    def check(self, call: Call, num_busy: int, now: float) -> None:
        """Let a call in, with `num_busy` places running something.

        Raises:
            QueueFull: there is no room.
        """
        num_idle = len(self._places) - num_busy
        room = self._max_queue + num_idle * self._max_batch_size
        if len(self._queue) + call.num_rows > room or not self._queue.has_room(call):
            raise refusals.queue_full(len(self._queue), self.clears_in_s(now))

    def check_in_time(self, call: Call, promise: Promise, num_busy: int, now: float) -> None:
        """Let a call in if it can be answered in time. While nothing is in hand everybody is.

        Who waits is taken to leave before it. That is right where all were promised the same; where the call would be
        refused, and may go before some of them, those are looked at one by one.

        Raises:
            DeadlineUnmeetable: it cannot.
        """
        due = self._queue.due(call)
        if (num_busy or len(self._queue)) and promise.latency.is_confident:
            takes_s = self._answered_in_s(len(self._queue), call, promise, now)
            if takes_s > due - now and (due < self._latest_due or self._queue.levels.num_levels > 1):
                takes_s = self._answered_in_s(self._queue.num_before(call), call, promise, now)
            if takes_s > due - now:
                raise self._unmeetable(call, takes_s, now)
        self._latest_due = max(self._latest_due, due)

    def refusal(self, call: Call, now: float) -> FaasError:
        """Return what a call gets that has left the queue and is not computed, since it would be too late."""
        if now >= call.context.deadline:
            return refusals.expired(call, now)
        if now >= self._queue.due(call):
            return refusals.promise_missed(call, now, self.clears_in_s(now))
        return self._unmeetable(call, self._latency.seconds(call.num_rows), now)

    def clears_in_s(self, now: float) -> float:
        """Return the seconds after which one more item would be answered, behind all that waits."""
        num_ahead = len(self._queue) // len(self._places)
        return self._free_in_s(now) + edf.backlog_s(num_ahead + 1, self._max_batch_size, self._latency.seconds)

    def pending_s(self, promise: Promise, num_more: int, now: float) -> float:
        """Return the seconds in which all that is in hand, and `num_more` more rows, will have been answered.

        In batches of the size that is aimed at.
        """
        limits, num_rows = promise.limits(), len(self._queue) // len(self._places) + num_more
        return self._free_in_s(now) + edf.backlog_s(num_rows, limits.target, limits.seconds)

    def _answered_in_s(self, num_ahead: int, call: Call, promise: Promise, now: float) -> float:
        return self._free_in_s(now) + promise.answered_in_s(num_ahead // len(self._places), call.num_rows)

    def _free_in_s(self, now: float) -> float:
        """Return the seconds after which the first of the places has ended what it runs."""
        seconds = self._latency.seconds
        return min(
            max(0.0, place.since + seconds(place.num_items) - now) if place.calls else 0.0 for place in self._places
        )

    def _unmeetable(self, call: Call, takes_s: float, now: float) -> FaasError:
        due = self._queue.due(call)
        own = due == call.context.deadline
        return refusals.unmeetable(takes_s, due - now, self.clears_in_s(now), own=own)
