"""Calls that wait for longer than their level allows, or than they were promised, are refused at that moment."""

from __future__ import annotations

from collections.abc import Callable

from faas.clock import Clock
from faas.engine import refusals
from faas.engine.admission import Admission
from faas.engine.deadlines import Deadlines
from faas.engine.queue import CallQueue
from faas.messages import Call


class Watches:
    """Watches the calls in a queue, as far as its levels ask for it. `refuse` ends one that waits with an error.

    Where something `is_promised` and levels go before others, the head of the queue is not the first to be late.
    """

    def __init__(
        self,
        queue: CallQueue,
        admission: Admission,
        clock: Clock,
        refuse: Callable[[Call, BaseException], None],
        *,
        is_promised: bool,
    ) -> None:
        self._queue = queue
        self._admission = admission
        self._clock = clock
        self._refuse = refuse
        self._watches: list[Deadlines] = []
        if queue.levels.times_out:
            self._watches.append(Deadlines(clock, self._late, moment=queue.levels.late_at))
        if is_promised and queue.levels.num_levels > 1:
            self._watches.append(Deadlines(clock, self._missed, moment=queue.due))

    def add(self, call: Call) -> None:
        """Watch a call that has come into the queue."""
        for watch in self._watches:
            watch.add(call)

    def remove(self, call: Call) -> None:
        """Watch it no longer; no matter whether it was watched."""
        for watch in self._watches:
            watch.remove(call)

    def close(self) -> None:
        """Watch nothing any more."""
        for watch in self._watches:
            watch.close()

    def _late(self, call: Call) -> None:
        """Take in that a call has waited for as long as its level allows."""
        if self._queue.levels.policy(call).timeout_action == "delay":
            self._queue.put_last(call)
            return
        now = self._clock()
        self._refuse(call, refusals.waited_too_long(call, now, self._admission.clears_in_s(now)))

    def _missed(self, call: Call) -> None:
        """Take in that what was promised to a call is over while it waits. One that waits alone may still be run."""
        if self._queue.num_calls > 1:
            self._refuse(call, self._admission.refusal(call, self._clock()))
