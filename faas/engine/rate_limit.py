"""Who begins a batch next where batches need units of shared resources: the rule of Triton's rate limiter. Pure.

Those who wait are ordered by what they have run times their priority, so that a priority of 2 gets half the turns of 1;
equals go as they came. Two things are not as in Triton. Who did not wait is owed nothing for that: it joins at where
the line has come to, or a version that is new would run alone until it had caught up with the old one (as start-time
fair queueing has it, Goyal et al., SIGCOMM 1996). And who stands first without finding its units holds up those alone
who need one of the same resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar


class Seat(Protocol):
    """One that runs one batch at a time, and what a batch of it needs.

    `standing` is its batches so far times its `priority`, from where the line had come to. Only the line changes it.
    """

    units: Mapping[str, int]
    priority: int
    standing: int

    @property
    def can_run(self) -> bool:
        """Whether units are all that it waits for."""
        ...

    @property
    def is_wanted(self) -> bool:
        """Whether there still is something to run on it."""
        ...


_Seat = TypeVar("_Seat", bound=Seat)


class Line(Generic[_Seat]):
    """The seats that wait, and what is free in the pools. It acts on nothing."""

    def __init__(self, pools: Mapping[str, int]) -> None:
        self._free = dict(pools)
        self._waiting: dict[_Seat, None] = {}  # in order of arrival
        self._reached = 0

    @property
    def waiting(self) -> list[_Seat]:
        """Those who wait, as they came."""
        return list(self._waiting)

    def join(self, seat: _Seat) -> None:
        """Wait for the next turn."""
        seat.standing = max(seat.standing, self._reached)
        self._waiting[seat] = None

    def leave(self, seat: _Seat) -> bool:
        """Wait no longer. False if it did not."""
        if seat not in self._waiting:
            return False
        del self._waiting[seat]
        return True

    def next(self) -> _Seat | None:
        """Return the seat whose turn it is: the first one that can run and is not to leave its units to one before."""
        kept = set[str]()
        for seat in sorted(self._waiting, key=_standing):
            if not seat.can_run:
                continue
            if kept.isdisjoint(seat.units) and self._has(seat.units):
                return seat
            if seat.is_wanted:
                kept.update(seat.units)
        return None

    def begin(self, seat: _Seat) -> None:
        """Give a seat its turn, and its units."""
        self.leave(seat)
        self._reached = max(self._reached, seat.standing)
        seat.standing += seat.priority
        for name, count in seat.units.items():
            self._free[name] -= count

    def end(self, seat: _Seat, *, ran: bool = True) -> None:
        """Take the units back. A turn in which nothing `ran` is none."""
        for name, count in seat.units.items():
            self._free[name] += count
        if not ran:
            seat.standing -= seat.priority

    def _has(self, units: Mapping[str, int]) -> bool:
        return all(self._free[name] >= count for name, count in units.items())


def _standing(seat: Seat) -> int:
    return seat.standing
