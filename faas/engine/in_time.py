"""When to run how many where an answer is promised within a time: `edf`, asked about a queue and a latency model. Pure.

Who is given up and how many run together is a matter of deadlines. Whether to wait for more, where nobody's deadline
is at stake, is left to the rule that holds without a promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from faas.engine import edf
from faas.engine.policy import GIVE_UP, Decision, Run, WaitUntil

_WAY_SHARE: Final = 0.025
_MAX_WAY_S: Final = 0.005
"""This share of a promised time, and at most this long, is kept for a refusal to reach its caller."""
_MAX_EARLY: Final = 0.3
"""Under overload, who cannot be served is told so early, by at most this share of a batch's time."""
_MARGIN: Final = 1.05
"""A full batch is then assumed to take this times its quantile, but never more than half of the promised time."""


class Item(Protocol):
    """What is asked of a call that waits."""

    num_rows: int
    queued_at: float


class Waiting(Protocol):
    """What is asked of a queue."""

    def __len__(self) -> int:
        """Return how many items wait."""
        ...

    @property
    def head(self) -> Item | None:
        """The call that leaves next."""
        ...

    @property
    def head_due(self) -> float:
        """When its answer must be there."""
        ...


class Latency(Protocol):
    """What is asked of a latency model. A larger size never takes less."""

    @property
    def is_confident(self) -> bool:
        """Whether anybody may be refused on its word."""
        ...

    @property
    def largest_run(self) -> int:
        """The largest size that has run."""
        ...

    def at_most(self, size: int) -> float:
        """Return the seconds that a batch hardly ever exceeds."""
        ...

    def largest_within(self, seconds: float, most: int) -> int:
        """Return the largest size up to `most`, 1 at least, that takes at most `seconds`."""
        ...


class Promise(msgspec.Struct, frozen=True):
    """An answer within `slo_s` seconds of its call, in batches of at most `max_batch_size`."""

    slo_s: float
    max_batch_size: int
    latency: Latency

    def limits(self) -> edf.Limits:
        """Return what batches are aimed at: the largest of which two in a row keep the promise.

        For an item that just missed one waits for all of it, and is then part of the next. A size is not tried before
        half of it has run: what is known of small batches says little of large ones. While nothing is known for sure
        only those are given up whose time has passed.
        """
        latency = self.latency
        most = max(1, min(self.max_batch_size, 2 * latency.largest_run))
        if not latency.is_confident:
            return edf.Limits(most, most, _no_time)
        return edf.Limits(latency.largest_within(self.slo_s / 2.0, most), most, latency.at_most)

    @property
    def target(self) -> int:
        """What batches are aimed at once sizes have been tried."""
        return self.latency.largest_within(self.slo_s / 2.0, self.max_batch_size)

    def together_s(self, size: int) -> float:
        """Return the seconds of one batch of `size` rows; infinity where none may be as large."""
        return self.latency.at_most(size) if size <= self.max_batch_size else math.inf

    def answered_in_s(self, size_ahead: int, size: int, *, fills: bool) -> float:
        """Return the seconds in which `size` rows behind `size_ahead` others are answered, from when one can start.

        Batches are taken to be as large as they can be in time, for a call is refused on this. Where so many come that
        the next one `fills`, they are as large as they are aimed at, and full: those at the head of the last one would
        else be let in only to be given up.
        """
        rows, most_s = size_ahead + size, self.latency.at_most
        if not fills:
            return edf.backlog_s(rows, self.latency.largest_within(self.slo_s, self.max_batch_size), most_s)
        target = self.target
        if rows <= target or not size_ahead:
            return most_s(max(rows, target))
        return math.ceil(rows / target) * most_s(target)


def plan(waiting: Waiting, promise: Promise, idle_since: float, now: float) -> edf.Batch | None:
    """Return the batch that should run next; None: the head of the queue, which is not empty, is to be given up.

    `idle_since` is when the last batch of this queue ended.
    """
    return edf.choose(_head(waiting, idle_since), len(waiting), promise.limits(), now)


def hopeless_at(waiting: Waiting, promise: Promise, idle_since: float, surplus: float) -> float:
    """Return the moment from which there is no use for the head of the queue, which is not empty, in waiting.

    `plan` gives it up then or a little later. Where so many wait that its batch is full, or there is a `surplus` (the
    share of arrivals that is more than batches can take), it is told a little early: a caller that waits for one batch,
    and is not part of the next, is to know within the time of one. With a surplus that costs nothing, and the time of
    one is half of the promise where batches are aimed at that. Of two who cannot both be served the later one is then
    as good, and has more time if a batch takes longer than usual. So the head is told earlier still, by as large a
    share of a batch's time as the surplus is of the arrivals: those who arrive in the rest of it fill the next batch.
    """
    moment = edf.hopeless_at(_head(waiting, idle_since), len(waiting), promise.limits())
    if not promise.latency.is_confident or len(waiting) < 2 or not (surplus or len(waiting) >= promise.target):
        return moment
    takes_s = promise.slo_s / 2.0
    early_s = max(min(_WAY_SHARE * promise.slo_s, _MAX_WAY_S), min(_MAX_EARLY, surplus) * takes_s)
    if not surplus or promise.target == promise.max_batch_size:
        takes_s = min(takes_s, _MARGIN * promise.latency.at_most(promise.target))
    return min(moment, waiting.head_due - takes_s - early_s)


def decide(num_waiting: int, planned: edf.Batch | None, otherwise: Callable[[], Decision], now: float) -> Decision:
    """Decide for an executor that is free, given the `plan`, and what the rule without a promise would decide.

    Where all that waits can run together, that rule may wait for more, until the batch must be begun.
    """
    if planned is None:
        return GIVE_UP
    if planned.late or planned.size < num_waiting:
        return Run(planned.size, late=planned.late)
    decision = otherwise()
    if not isinstance(decision, WaitUntil):
        return decision
    return Run(planned.size) if now >= planned.start_by else WaitUntil(min(decision.moment, planned.start_by))


def _head(waiting: Waiting, idle_since: float) -> edf.Head:
    head = waiting.head
    assert head is not None
    return edf.Head(waiting.head_due, head.num_rows, spared=head.queued_at >= idle_since)


def _no_time(size: int) -> float:
    return 0.0
