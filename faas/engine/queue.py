"""The queue of one engine: by priority, by a given order and then by arrival."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from typing import Final

from faas.engine.levels import Levels
from faas.messages import Call

Order = Callable[[Call], float]
Due = Callable[[Call], float]
Entry = tuple[int, bool, float, int, Call]

_FEW_DEAD: Final = 8


def by_arrival(call: Call) -> float:
    """Order of arrival alone: equal keys leave as they came."""
    return 0.0


class CallQueue:
    """Calls that wait: the highest level first, in it those that are not late, then by `order`, then by arrival.

    O(log n) each way. A call that is done (its caller left, its time was up) is reported by `discard`; it stops
    counting at once and is cleared away later. `due` says by when a call's answer must be there. What counts are
    items: a call that carries rows counts for each of them.
    """

    def __init__(self, due: Due, *, levels: Levels | None = None, order: Order = by_arrival) -> None:
        self.levels = levels or Levels()
        self._due = due
        self._order = order
        self._heap: list[Entry] = []
        self._num_pushed = 0
        self._num = 0
        self._num_items = 0
        self._num_items_at = [0] * (self.levels.num_levels + 1)  # only where levels are bounded
        self._number_of: dict[Call, int] = {}  # only of calls that may become late
        self._moved: set[int] = set()
        # None: since somebody asked, a call that may have held the figure has gone. Most rules never ask.
        self._oldest_at: float | None = None
        self._earliest_due: float | None = None

    def due(self, call: Call) -> float:
        """Return by when the answer to a call must be there."""
        return self._due(call)

    def __len__(self) -> int:
        """Return how many items wait."""
        return self._num_items

    def __iter__(self) -> Iterator[Call]:
        """Yield the calls that wait, in no order."""
        return (entry[-1] for entry in self._heap if not self._is_dead(entry))

    @property
    def num_calls(self) -> int:
        """How many calls wait."""
        return self._num

    def has_room(self, call: Call) -> bool:
        """Whether the level of a call takes it in."""
        if not self.levels.bounded:
            return True
        level = self.levels.of_call(call)
        return self._num_items_at[level] + call.num_rows <= self.levels.most(level)

    def push(self, call: Call) -> None:
        """Add a call whose `queued_at` is set."""
        self._num += 1
        self._num_items += call.num_rows
        if self.levels.bounded:
            self._num_items_at[self.levels.of_call(call)] += call.num_rows
        self._insert(call, late=False)
        if self._oldest_at is not None:
            self._oldest_at = min(self._oldest_at, call.queued_at)
        if self._earliest_due is not None:
            self._earliest_due = min(self._earliest_due, self._due(call))

    def put_last(self, call: Call) -> None:
        """Set a call that waits behind all of its level that are not late. Levels below stay behind it."""
        self._moved.add(self._number_of[call])
        self._insert(call, late=True)

    def in_order(self) -> Iterator[Call]:
        """Yield the calls that wait, next one first, and take none. The first k of them cost O(k log k)."""
        heap = self._heap
        front = [(heap[0], 0)] if heap else []
        while front:
            entry, at = heapq.heappop(front)
            if not self._is_dead(entry):
                yield entry[-1]
            for child in range(2 * at + 1, min(2 * at + 3, len(heap))):
                heapq.heappush(front, (heap[child], child))

    def pop(self, most: float = math.inf) -> Call | None:
        """Take the next call that is not done; None when nothing waits, or when it counts for more than `most`."""
        while self._heap:
            entry = self._heap[0]
            if self._is_dead(entry):
                heapq.heappop(self._heap)
                self._moved.discard(entry[-2])
                continue
            if entry[-1].num_rows > most:
                return None
            heapq.heappop(self._heap)
            self._gone(entry[-1])
            return entry[-1]
        self._check_none_lost()
        return None

    def discard(self, call: Call) -> None:
        """Say that a call that waits here is done."""
        self._gone(call)
        if len(self._heap) > 2 * self._num + _FEW_DEAD:
            self._heap = [entry for entry in self._heap if not self._is_dead(entry)]
            heapq.heapify(self._heap)
            self._moved.clear()

    @property
    def head(self) -> Call | None:
        """The call that leaves next; None when nothing waits."""
        while self._heap and self._is_dead(self._heap[0]):
            self._moved.discard(heapq.heappop(self._heap)[-2])
        if not self._heap:
            self._check_none_lost()
            return None
        return self._heap[0][-1]

    @property
    def head_due(self) -> float:
        """By when its answer must be there; infinity when nothing waits."""
        head = self.head
        return math.inf if head is None else self._due(head)

    def num_before(self, call: Call) -> int:
        """Return how many items would leave before a call that is about to be added. O(n)."""
        place = (self.levels.of_call(call), False, self._order(call))
        return sum(entry[-1].num_rows for entry in self._heap if entry[:3] <= place and not self._is_dead(entry))

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

    def _check_none_lost(self) -> None:
        """Raise RuntimeError once where the heap is empty and calls should be there."""
        if self._num:
            lost, self._num, self._num_items = self._num, 0, 0
            self._num_items_at = [0] * len(self._num_items_at)
            raise RuntimeError(f"{lost} calls in the queue were ended without the queue being told")

    def _insert(self, call: Call, *, late: bool) -> None:
        self._num_pushed += 1
        if self.levels.times_out:
            self._number_of[call] = self._num_pushed
        level = self.levels.of_call(call)
        heapq.heappush(self._heap, (level, late, self._order(call), self._num_pushed, call))

    def _is_dead(self, entry: Entry) -> bool:
        return entry[-1].done or entry[-2] in self._moved

    def _gone(self, call: Call) -> None:
        self._num -= 1
        self._num_items -= call.num_rows
        if self.levels.bounded:
            self._num_items_at[self.levels.of_call(call)] -= call.num_rows
        if self.levels.times_out:
            self._number_of.pop(call, None)
        self._oldest_at = self._earliest_due = None
