"""One timer for many deadlines."""

from __future__ import annotations

import asyncio
import heapq
import math
import operator
from collections.abc import Callable
from typing import Final

from faas.clock import Clock
from faas.messages import Call

_SLACK: Final = 64
_TICK_S: Final = 0.001


deadline: Final[Callable[[Call], float]] = operator.attrgetter("context.deadline")
"""The moment by which the answer to a call must be there."""


class Deadlines:
    """Calls `expire(call)` on the loop once the deadline of a call that was added, and not removed, has passed.

    `moment` gives a call another deadline than the one by which its answer must be there.
    """

    def __init__(
        self, clock: Clock, expire: Callable[[Call], None], *, moment: Callable[[Call], float] = deadline
    ) -> None:
        self._clock = clock
        self._expire = expire
        self._moment = moment
        self._calls: dict[int, Call] = {}
        self._heap: list[tuple[float, int]] = []  # holds no call, so an entry that lingers keeps no body alive
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def add(self, call: Call) -> None:
        """Watch a call; one without a deadline is left alone."""
        deadline = self._moment(call)
        if deadline == math.inf:
            return
        self._calls[id(call)] = call
        heapq.heappush(self._heap, (deadline, id(call)))
        if len(self._heap) > 2 * len(self._calls) + _SLACK:
            self._heap = [(self._moment(held), key) for key, held in self._calls.items()]
            heapq.heapify(self._heap)
        if deadline < self._timer_at:
            self._arm(deadline)

    def remove(self, call: Call) -> None:
        """Watch it no longer; no matter whether it was watched."""
        self._calls.pop(id(call), None)

    def close(self) -> None:
        """Stop watching all of them."""
        self._calls.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, math.inf

    def _arm(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = moment - self._clock()
        if delay_s > 0.0:
            delay_s = max(_TICK_S, delay_s)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._fire)
        self._timer_at = moment

    def _fire(self) -> None:
        now = self._clock()  # a loop that rounds to milliseconds may fire early; the rest is then waited for
        self._timer, self._timer_at = None, math.inf
        while self._heap and (self._heap[0][0] <= now or self._heap[0][1] not in self._calls):
            call = self._calls.get(heapq.heappop(self._heap)[1])
            # A key may have passed to a younger call: it has an entry of its own.
            if call is not None and self._moment(call) <= now:
                del self._calls[id(call)]
                self._expire(call)
        if self._heap:
            self._arm(self._heap[0][0])
