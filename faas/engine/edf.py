"""Deadlines on one device: who is still in time, how many run together, and whose turn it is. Pure.

Inside an engine items stand in the order of their deadlines. The one at the head is given up as soon as a batch of the
size that is aimed at would end too late for it (the window drop of Nexus, Shen et al., SOSP 2019): under overload the
device then goes on working in full batches for those who still profit, where a rule that clings to the head ends in
small batches that are all late. A batch grows beyond its aim while the head stays in time. Between engines the one
that has to start soonest goes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

PATIENCE_S: Final = 1.0
"""After this time an engine that asked for the device is as urgent as one that has to start now, whatever it promised.

So an engine without a promise waits for at most that long and one batch, whatever the others have to do.
"""

Seconds = Callable[[int], float]
"""What a batch of that size takes; never less for a larger one."""


class Head(NamedTuple):
    """The item that goes first. `due` is the moment by which its answer must be there, `size` its rows.

    `spared`: it came when its engine had nothing in hand, so to refuse it could mean never to serve anybody.
    """

    due: float
    size: int = 1
    spared: bool = False


class Limits(NamedTuple):
    """The sizes of batches, in rows: what is aimed at, and what cannot be exceeded."""

    target: int
    most: int
    seconds: Seconds


class Batch(NamedTuple):
    """What to run. `start_by` is the last moment at which the head is still in time; `late`: it has gone by."""

    size: int
    start_by: float
    late: bool = False


def choose(head: Head, size_waiting: int, limits: Limits, now: float) -> Batch | None:
    """Return the batch to run of `size_waiting` rows, the head's included; None: the head is to be given up.

    A head that alone waits is run although it will be late, unless it is late already and was not spared: the device
    has nothing better to do for its engine, and an estimate that is too high is found out only by running something.
    """
    most = max(head.size, min(size_waiting, limits.most))
    size = aim(head.size, size_waiting, limits)
    seconds, left_s = limits.seconds, head.due - now
    takes_s = seconds(size)
    if takes_s > left_s:
        alone = size_waiting <= head.size
        if alone and (left_s > 0.0 or head.spared):
            return Batch(size, head.due - takes_s, late=True)
        return None
    if size < most:
        size = largest(size, most, lambda more: seconds(more) <= left_s)
        takes_s = seconds(size)
    return Batch(size, head.due - takes_s)


def hopeless_at(head: Head, size_waiting: int, limits: Limits) -> float:
    """Return the moment from which `choose` gives the head up, if nobody comes or goes until then."""
    if size_waiting > head.size:
        return head.due - limits.seconds(aim(head.size, size_waiting, limits))
    return math.inf if head.spared else head.due


def aim(head_size: int, size_waiting: int, limits: Limits) -> int:
    """Return the rows of the batch that the head is given up for, where it would end too late."""
    return max(head_size, min(size_waiting, limits.target))


def turn(batch: Batch | None, asked_at: float) -> float:
    """Return the moment by which an engine's turn should come, that asked at `asked_at`; the smallest goes first.

    None is an engine that promised nothing. One that is late whatever happens has nothing to lose either: it goes
    behind those who have, until `PATIENCE_S` is over.
    """
    if batch is None or batch.late:
        return asked_at + PATIENCE_S
    return min(batch.start_by, asked_at + PATIENCE_S)


def backlog_s(size: int, most: int, seconds: Seconds) -> float:
    """Return the seconds that `size` rows take, in batches of `most` and what is left."""
    full, rest = divmod(size, most)
    return full * seconds(most) + (seconds(rest) if rest else 0.0)


def largest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number from `low` to `high` that `holds`, by halving; `low` where no other does."""
    if high > low and holds(high):  # all that waits fits: the usual case
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
