"""Which variant answers by the time that is left: the most accurate one that fits, after SlackFit.

SuperServe (A. Khare et al., NSDI 2025) takes the variant and batch whose latency is just under the slack of the first
request that waits. Here a variant is chosen for each call as it comes, so that none waits for a slow one in vain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from faas.engine.rate import Rate

HEADROOM: Final = 1.2
"""The better variant must fit at this many times the rate before calls go to it again."""

HOLD_S: Final = 2.0
"""For how long it must have fitted."""

MARGIN: Final = 0.6
"""The share of its slack that an answer may be expected to take. What is left is for those that come just after it:
they go to a faster variant, but behind it."""

MEMORY_S: Final = 0.5
"""The time constant of the measured rate."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one variant promises at this moment.

    `finish_s`: one more call would be answered after that time. `alone_s`: so long it would take if nothing waited.
    `capacity`: calls a second it can answer in time in the long run; infinity where that is not known.
    """

    finish_s: float
    alone_s: float
    capacity: float


class Switch:
    """The level that calls are answered at: 0 is the most accurate variant, each next one is faster.

    The level goes down as soon as the present rate is surely more than its variant can answer, or a call that it could
    answer alone would be late behind those that wait. It goes up by one once the better variant has fitted at
    `HEADROOM` times the rate for `HOLD_S`. A call with less time than others may be answered below the level by itself.
    """

    def __init__(self, num_levels: int, *, hold_s: float = HOLD_S, memory_s: float = MEMORY_S) -> None:
        self.level = 0
        self.num_switches = 0
        self._num_levels = num_levels
        self._hold_s = hold_s
        self._rate = Rate(memory_s)
        self._fits_since = math.inf

    def choose(self, outlooks: Sequence[Outlook], slack_s: float, now: float) -> int:
        """Return the level for a call that comes `now` and is due in `slack_s`. `outlooks` are the levels' own."""
        self._rise(outlooks, now)
        self._rate.count(now)
        rate = self._rate.surely_at(now)
        while self.level < self._num_levels - 1 and rate > outlooks[self.level].capacity:
            self._set(self.level + 1)
        within_s = MARGIN * slack_s
        fitting = next((at for at in range(self.level, self._num_levels) if outlooks[at].finish_s <= within_s), None)
        if fitting is None:  # the fastest one's own admission says whether there is any hope
            fitting = min(range(self.level, self._num_levels), key=lambda at: outlooks[at].finish_s)
        if fitting > self.level and outlooks[self.level].alone_s <= within_s:
            self._set(fitting)
        return fitting

    def _rise(self, outlooks: Sequence[Outlook], now: float) -> None:
        if self.level == 0:
            return
        below_since = self._rate.below_since(outlooks[self.level - 1].capacity / HEADROOM, now)
        if below_since == math.inf:
            self._fits_since = math.inf
            return
        self._fits_since = min(self._fits_since, below_since)
        if now - self._fits_since >= self._hold_s:
            self._set(self.level - 1)

    def _set(self, level: int) -> None:
        self.level = level
        self.num_switches += 1
        self._fits_since = math.inf
