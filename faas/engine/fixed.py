"""When to run how many under `idle="wait"`, and where sizes are preferred: the rule of Triton's dynamic batcher.

TensorFlow Serving's is the same one with no preferred size but the largest. Pure, as `policy` is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import Protocol

from faas.engine.policy import IDLE, Decision, Outlook, Rules, Run, Waiting, WaitUntil, begun_by

Form = Callable[[dict[str, object]], Hashable]


class Item(Protocol):
    """What the rule asks of a call that waits."""

    kwargs: dict[str, object]
    num_rows: int
    queued_at: float


class OrderedWaiting(Waiting, Protocol):
    """What the rule asks of a queue beyond what `policy` does."""

    def in_order(self) -> Iterator[Item]:
        """Yield what waits, next one first."""
        ...


class _Scan:
    """The calls at the head of the queue that may run together, as far as they fit.

    `size` is their number of items, `preferred` that of the longest prefix of a preferred size (0: none), `full` says
    that waiting for more is no use: the next call does not fit or has another form, or no larger size is preferred.
    `oldest_at` is when the first of them came.
    """

    def __init__(self, waiting: OrderedWaiting, rules: Rules, form: Form | None) -> None:
        self.size = 0
        self.preferred = 0
        self.full = False
        self.oldest_at = math.inf
        sizes = rules.preferred or (rules.max_batch_size,)
        largest, first = sizes[-1], None
        for item in waiting.in_order():
            grown = self.size + item.num_rows
            if self.size and grown > largest and not self.preferred:
                self.preferred = self.size
            its_form = form(item.kwargs) if form is not None else None
            if self.size and (grown > rules.max_batch_size or its_form != first):
                self.full = True
                return
            first = its_form
            self.size = grown
            self.oldest_at = min(self.oldest_at, item.queued_at)
            if grown in sizes:
                self.preferred = grown
        self.full = self.size >= largest


def decide(waiting: OrderedWaiting, rules: Rules, outlook: Outlook, now: float, form: Form | None = None) -> Decision:
    """Decide for an executor that is free.

    The longest prefix of a preferred size leaves at once; the largest size is preferred where none is named. Without
    one, what waits leaves when nothing more fits, when the next call has another form (`form` of its parameters), or
    when the first of it has waited `wait_s`. It leaves early where an item would miss the moment it is due.
    """
    if len(waiting) == 0:
        return IDLE
    scan = _Scan(waiting, rules, form)
    wait_s = rules.wait_s if rules.idle == "wait" else 0.0
    over = outlook.ending or now >= scan.oldest_at + wait_s
    if scan.preferred and (not over or wait_s == 0.0):
        return Run(scan.preferred)
    if scan.full or over:
        return Run(scan.size)
    until = min(scan.oldest_at + wait_s, begun_by(waiting, outlook.latency.seconds(scan.size)))
    return Run(scan.size) if now >= until else WaitUntil(until)
