"""The queue of one engine: bounded by its owner, by priority and then by arrival."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from typing import Final

from faas.messages import Call

Order = Callable[[Call], float]
Due = Callable[[Call], float]

_FEW_DEAD: Final = 8


def by_arrival(call: Call) -> float:
    """Order of arrival alone: equal keys leave as they came."""
    return 0.0


class CallQueue:
    """Calls that wait, lowest priority number first, then by `order`, then by arrival. O(log n) each way.

    A call that is done (its caller left, its time was up) is reported by `discard`; it stops counting at once and is
    cleared away later. Level 1 is the highest; a level beyond `num_levels` is the lowest. `due` says by when a call's
    answer must be there.
    """

    def __init__(self, due: Due, *, num_levels: int = 1, order: Order = by_arrival) -> None:
        self._due = due
        self._order = order
        self._num_levels = num_levels
        self._heap: list[tuple[int, float, int, Call]] = []
        self._num_pushed = 0
        self._num = 0
        # None: a call that held the figure has gone, and it is worked out again when somebody asks.
        self._oldest_at: float | None = math.inf
        self._earliest_due: float | None = math.inf

    def __len__(self) -> int:
        return self._num

    def __iter__(self) -> Iterator[Call]:
        """Yield the calls that wait, in no order."""
        return (entry[-1] for entry in self._heap if not entry[-1].done)

    def push(self, call: Call) -> None:
        """Add a call whose `queued_at` is set."""
        self._num += 1
        self._num_pushed += 1
        level = min(max(call.priority, 1), self._num_levels)
        heapq.heappush(self._heap, (level, self._order(call), self._num_pushed, call))
        if self._oldest_at is not None:
            self._oldest_at = min(self._oldest_at, call.queued_at)
        if self._earliest_due is not None:
            self._earliest_due = min(self._earliest_due, self._due(call))

    def pop(self) -> Call | None:
        """Take the next call that is not done; None when nothing waits."""
        while self._heap:
            call = heapq.heappop(self._heap)[-1]
            if not call.done:
                self._gone()
                return call
        if self._num:
            lost, self._num = self._num, 0
            raise RuntimeError(f"{lost} calls in the queue were ended without the queue being told")
        return None

    def discard(self) -> None:
        """Say that one of the calls here is done."""
        self._gone()
        if len(self._heap) > 2 * self._num + _FEW_DEAD:
            self._heap = [entry for entry in self._heap if not entry[-1].done]
            heapq.heapify(self._heap)

    @property
    def oldest_at(self) -> float:
        """When the call that has waited longest came; infinity when nothing waits."""
        if self._oldest_at is None:
            self._oldest_at = min((call.queued_at for call in self), default=math.inf)
        return self._oldest_at

    @property
    def earliest_due(self) -> float:
        """The first moment by which one of the answers must be there; infinity when nothing waits."""
        if self._earliest_due is None:
            self._earliest_due = min(map(self._due, self), default=math.inf)
        return self._earliest_due

    def _gone(self) -> None:
        self._num -= 1
        self._oldest_at = self._earliest_due = None if self._num else math.inf
