"""Batches of one: where all that counts is who came first, there is nothing to decide about a lone call."""

from __future__ import annotations

import contextvars
import math
from typing import Any

from faas.engine.batcher import Batcher
from faas.engine.levels import Levels
from faas.engine.place import Place
from faas.engine.policy import Rules
from faas.messages import Call


def suits(rules: Rules, levels: Levels) -> bool:
    """Whether batches hold one, and calls are computed in the order in which they come, however long that takes."""
    return rules.max_batch_size == 1 and rules.slo_s == math.inf and levels.are_plain


class OneByOne(Batcher):
    """A batcher for what it `suits`: a call that finds nobody waiting, and a place, has that at once."""

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        place = self._spare(call)
        if place is None:
            self._queue_up(call)
        else:
            place.executor.start(place.calls, place.ended)

    async def answer(self, call: Call) -> Any:
        """See `Engine`."""
        place = self._spare(call)
        if place is None:
            self._queue_up(call)
        else:
            await place.executor.run(place.calls, place.ended)
        try:
            return await call.result()
        finally:
            call.leave()

    def _queue_up(self, call: Call) -> None:
        call.scope = contextvars.copy_context()
        super().submit(call)

    def _spare(self, call: Call) -> Place | None:
        """Return the place that a call can have at once, with the call in it."""
        if self._queue.num_calls or self._strategy.ending or call.done:
            return None
        now = self._clock()
        if now >= call.context.deadline:
            return None
        for place in self._places:
            if place.is_open and place.executor.lease.take():
                call.queued_at = call.picked_at = place.since = now
                call.on_leave = self._dropped
                self._deadlines.add(call)
                place.calls.append(call)
                self._num_busy += 1
                return place
        return None
