"""The right to begin a batch where that takes units of resources, too: one line for all engines of a process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from faas.engine.rate_limit import Line
from faas.engine.thread import Right, Turn
from faas.spec import Batching, RateLimit
from faas.spec.rate_limit import pool_sizes


class Limiter:
    """Gives turns in the order of `rate_limit`, each with the place's own right. Belongs to the event loop's thread.

    It decides when somebody asks, asks no longer or ends, and when a right comes free that others had.
    """

    def __init__(self, batching: Batching) -> None:
        self._limit_of = batching.limit_of
        self._line = Line[Limited](pool_sizes(batching.limits))
        self._looking = False
        self._awaited = set[Right]()

    def limited(self, method: str, right: Right, is_wanted: Callable[[], bool]) -> Right:
        """Return the right to run batches of a method at a place whose own right is `right`.

        `is_wanted` says whether anything waits to be run there.
        """
        return Limited(self, self._limit_of(method), right, is_wanted)

    def join(self, seat: Limited) -> None:
        """Give a seat its turn when it comes, now at the earliest."""
        self._line.join(seat)
        self.look()

    def take(self, seat: Limited) -> bool:
        """Give a seat its turn if it can have it now. Returns whether it could."""
        self._line.join(seat)
        if self._line.next() is not seat:
            self._line.leave(seat)
            return False
        self._line.begin(seat)
        return True

    def leave(self, seat: Limited) -> bool:
        """Let a seat wait no longer, and nobody behind it. False if it did not wait."""
        if not self._line.leave(seat):
            return False
        self.look()
        return True

    def end(self, seat: Limited, *, ran: bool) -> None:
        """Take in that a turn is over, and whether anything was run in it. The place's own right is still held."""
        self._line.end(seat, ran=ran)

    def look(self) -> None:
        """Give all those their turn who can have it."""
        if self._looking:  # whoever does goes on until nobody can
            return
        self._looking = True
        try:
            while (seat := self._line.next()) is not None:
                self._line.begin(seat)
                seat.begin()
        finally:
            self._looking = False
        for seat in self._line.waiting:
            if not seat.can_run and seat.right not in self._awaited:
                self._awaited.add(seat.right)
                seat.right.request(functools.partial(self._came_free, seat.right))

    def _came_free(self, right: Right) -> None:
        """Take in that a place's own right is free. Who else waits for that one, a `setup()` say, goes first."""
        self._awaited.discard(right)
        right.release()
        self.look()


class Limited:
    """See `Right`. It is granted with the units that a batch needs, as the line has it: nobody's `turn` is asked for.

    A grant that is given up again before `granted` returns counts as no batch.
    """

    def __init__(self, limiter: Limiter, limit: RateLimit | None, right: Right, is_wanted: Callable[[], bool]) -> None:
        self.units: Mapping[str, int] = {} if limit is None else limit.resources
        self.priority = 1 if limit is None else limit.priority
        self.standing = 0
        self.right = right
        self._limiter = limiter
        self._is_wanted = is_wanted
        self._granted: Callable[[], None] | None = None
        self._deciding = False

    @property
    def can_run(self) -> bool:
        """Whether the place is free."""
        return not self.right.held

    @property
    def is_wanted(self) -> bool:
        """Whether anything waits to be run there."""
        return self._is_wanted()

    @property
    def held(self) -> bool:
        """See `Right`."""
        return self.right.held

    def request(self, granted: Callable[[], None], turn: Turn | None = None) -> None:
        """See `Right`."""
        self._granted = granted
        self._limiter.join(self)

    def take(self) -> bool:
        """See `Right`."""
        return self._limiter.take(self) and self.right.take()

    def withdraw(self, granted: Callable[[], None]) -> bool:
        """See `Right`."""
        return self._granted is granted and self._limiter.leave(self)

    def begin(self) -> None:
        """Have the turn that was waited for."""
        assert self._granted is not None
        granted, self._granted = self._granted, None
        self.right.take()
        self._deciding = True
        granted()
        self._deciding = False

    def release(self) -> None:
        """See `Right`."""
        self._limiter.end(self, ran=not self._deciding)
        self.right.release()
        self._limiter.look()
