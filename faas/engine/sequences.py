"""Which calls of which sequences may run: slots, the order within a sequence, what waits for a slot. Pure.

The semantics are those of Triton's sequence batcher: all calls of a sequence have one slot, one after another; one that
has not begun, or was idle for too long, is refused; what finds no slot waits; a beginning under an id that is in use
replaces the sequence of that id once what came before is through.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from typing import Generic, NamedTuple, TypeVar

from faas.messages import Turn

T = TypeVar("T")


class NoSequence(Exception):
    """A call belongs to a sequence that has not begun, has ended, or was idle for too long."""


class Step(NamedTuple, Generic[T]):
    """A call, its turn, and the slot it is to run in; -1 while it waits for one."""

    item: T
    turn: Turn
    slot: int = -1


class Change(NamedTuple, Generic[T]):
    """What follows from something that happened: the steps that run now, and the calls that never can."""

    running: list[Step[T]]
    lost: list[T]


class _Sequence(Generic[T]):
    def __init__(self) -> None:
        self.slot = -1
        self.running: Step[T] | None = None
        self.waiting: deque[Step[T]] = deque()
        self.ended = False

    @property
    def is_empty(self) -> bool:
        return self.running is None and not self.waiting


class Sequences(Generic[T]):
    """The sequences that are under way in `num_slots` slots. A slot is lost after `idle_s` without a call."""

    def __init__(self, num_slots: int, idle_s: float) -> None:
        self.num_waiting = 0
        self._idle_s = idle_s
        self._free = list(range(num_slots))
        self._of_id: dict[str, _Sequence[T]] = {}
        self._backlog: dict[str, _Sequence[T]] = {}  # in the order in which they began
        self._idle_since: dict[str, float] = {}  # in the order in which they fell idle

    @property
    def idle_until(self) -> float:
        """The moment at which the next slot is lost; infinity while none is idle."""
        return next(iter(self._idle_since.values()), math.inf) + self._idle_s

    @property
    def num_running(self) -> int:
        """How many calls run."""
        return sum(sequence.running is not None for sequence in self._of_id.values())

    def arrive(self, item: T, turn: Turn) -> Change[T]:
        """Take a call in.

        Raises:
            NoSequence: it does not begin one, and there is none of that id.
        """
        sequence = self._of_id.get(turn.id)
        if turn.start:
            if sequence is None:
                sequence = self._of_id[turn.id] = self._backlog[turn.id] = _Sequence()
        elif sequence is None or sequence.ended:
            raise NoSequence
        sequence.ended = turn.end
        sequence.waiting.append(Step(item, turn))
        self.num_waiting += 1
        self._idle_since.pop(turn.id, None)
        return self._go_on(turn.id, sequence, [])

    def done(self, item: T, turn: Turn, now: float, *, computed: bool) -> Change[T]:
        """Take in that a call has its outcome. One that was never `computed` may have waited still."""
        sequence = self._of_id[turn.id]
        lost: list[T] = []
        if sequence.running is not None and sequence.running.item == item:
            sequence.running = None
            if turn.start and not computed:
                lost = self._lose(sequence, 0)
        else:
            at = next(at for at, step in enumerate(sequence.waiting) if step.item == item)
            del sequence.waiting[at]
            self.num_waiting -= 1
            if turn.start:
                lost = self._lose(sequence, at)
        if sequence.is_empty:
            if sequence.ended or sequence.slot < 0:
                return Change(self._remove(turn.id), lost)
            self._idle_since[turn.id] = now
        return self._go_on(turn.id, sequence, lost)

    def expire(self, now: float) -> Change[T]:
        """Take the slots of those that were idle for too long."""
        running: list[Step[T]] = []
        while self.idle_until <= now:
            running += self._remove(next(iter(self._idle_since)))
        return Change(running, [])

    def _lose(self, sequence: _Sequence[T], at: int) -> list[T]:
        """Give up what waits from `at` on up to the next beginning: what it goes on from never was."""
        lost: list[T] = []
        while at < len(sequence.waiting) and not sequence.waiting[at].turn.start:
            lost.append(sequence.waiting[at].item)
            del sequence.waiting[at]
        self.num_waiting -= len(lost)
        if at == len(sequence.waiting):
            sequence.ended = True
        return lost

    def _go_on(self, name: str, sequence: _Sequence[T], lost: list[T]) -> Change[T]:
        """Run what is next in a sequence, where nothing of it runs and there is a slot for it."""
        if sequence.slot < 0 and self._free:
            sequence.slot = heapq.heappop(self._free)
            del self._backlog[name]
        if sequence.slot < 0 or sequence.running is not None or not sequence.waiting:
            return Change([], lost)
        step = sequence.waiting.popleft()._replace(slot=sequence.slot)
        self.num_waiting -= 1
        sequence.running = step
        return Change([step], lost)

    def _remove(self, name: str) -> list[Step[T]]:
        """End a sequence; the one that has waited longest gets its slot."""
        sequence = self._of_id.pop(name)
        self._idle_since.pop(name, None)
        self._backlog.pop(name, None)
        if sequence.slot < 0:
            return []
        heapq.heappush(self._free, sequence.slot)
        if not self._backlog:
            return []
        first = next(iter(self._backlog))
        return self._go_on(first, self._backlog[first], []).running
