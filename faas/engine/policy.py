"""When to run how many: a pure function over what waits, what to expect and the time.

Where an answer is promised within a time, `in_time` decides first.
"""

from __future__ import annotations

import math
from typing import Final, Literal, Protocol

import msgspec

from faas.spec import Batching


class Run(msgspec.Struct, frozen=True):
    """Take `num_items` from the queue and run them now. `late`: whether or not they can still be in time."""

    num_items: int
    late: bool = False


class WaitUntil(msgspec.Struct, frozen=True):
    """Decide again at `moment`, or when something arrives."""

    moment: float


class Idle(msgspec.Struct, frozen=True):
    """Nothing waits."""


class GiveUp(msgspec.Struct, frozen=True):
    """Refuse the next call: its answer would come too late."""


Decision = Run | WaitUntil | Idle | GiveUp
IDLE = Idle()
GIVE_UP = GiveUp()

_LEFT: Final = 1 / 8
"""The share of the time of an item that is not waited away."""


class Waiting(Protocol):
    """What a policy may ask of a queue. Moments are seconds on the monotonic clock."""

    def __len__(self) -> int:
        """Return how many items wait."""
        ...

    @property
    def oldest_at(self) -> float:
        """When the item that has waited longest came."""
        ...

    @property
    def earliest_due(self) -> float:
        """The first moment by which an answer must be there."""
        ...


class Latency(Protocol):
    """What a policy may ask of a latency model."""

    @property
    def beta_s(self) -> float:
        """The seconds of a batch that do not grow with its size: what joining two batches saves."""
        ...

    def seconds(self, size: int) -> float:
        """Return the expected seconds of a batch."""
        ...


class Callers(Protocol):
    """What a policy may ask about who may still come, given when the item that has waited longest came."""

    def expected(self, oldest_at: float) -> int:
        """Return how many items callers are likely to have in play at once."""
        ...

    def gather_from(self, oldest_at: float) -> float:
        """Return the moment from which the time spent gathering counts."""
        ...


class Rules(msgspec.Struct, frozen=True):
    """The settings of one engine's queue. `slo_s` is the time within which an answer is promised."""

    max_batch_size: int = 1
    wait_s: float = 0.0
    idle: Literal["adaptive", "now", "wait"] = "now"
    slo_s: float = math.inf
    preferred: tuple[int, ...] = ()
    allowed: tuple[int, ...] = ()

    @classmethod
    def of(cls, batching: Batching | None) -> Rules:
        """Return the rules of a batching, or those of a handler that takes one item at a time."""
        if batching is None:
            return cls()
        slo_s = math.inf if batching.slo_ms is None else batching.slo_ms / 1000.0
        return cls(
            batching.max_batch_size,
            batching.wait_ms / 1000.0,
            batching.idle,
            slo_s=slo_s,
            preferred=batching.preferred_batch_sizes,
            allowed=batching.allowed_batch_sizes or (),
        )


class Outlook(msgspec.Struct, frozen=True):
    """What may still come, and what a batch will take. `ending` says that nobody new comes."""

    callers: Callers
    latency: Latency
    ending: bool = False


def decide(waiting: Waiting, rules: Rules, outlook: Outlook, now: float) -> Decision:
    """Decide for an executor that is free.

    "now" runs what is there. "wait" runs a full batch, or what is there `wait_s` after the oldest item came.
    "adaptive" runs as soon as everybody who is expected has come; until then it gathers while running the missing ones
    later would cost more (one more `beta_s`) than the time spent, and never for more than `wait_s`. Gathering ends
    early where an item would miss the moment it is due.
    """
    num = len(waiting)
    if num == 0:
        return IDLE
    if num >= rules.max_batch_size or rules.idle == "now" or outlook.ending:
        return Run(min(num, rules.max_batch_size))
    oldest_at = waiting.oldest_at
    if rules.idle == "wait":
        until = oldest_at + rules.wait_s
    elif num >= outlook.callers.expected(oldest_at):
        return Run(num)
    else:
        until = outlook.callers.gather_from(oldest_at) + min(outlook.latency.beta_s, rules.wait_s)
    until = min(until, begun_by(waiting, outlook.latency.seconds(num)))
    return Run(num) if now >= until else WaitUntil(until)


def begun_by(waiting: Waiting, takes_s: float) -> float:
    """Return the moment by which a batch of `takes_s` is to be begun: however short it seems, some time is left for it.

    Nothing is known of a batch before one has run, and nothing would ever run where waiting took all of the time.
    """
    due = waiting.earliest_due
    return due - max(takes_s, _LEFT * (due - waiting.oldest_at)) if due < math.inf else due
