"""The engine that answers with the most accurate variant that is fast enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from faas.clock import Clock, monotonic
from faas.engine.selection.several import Candidate, Counts, Several
from faas.engine.selection.slack import Outlook, Switch
from faas.messages import Call

_UNKNOWN: Final = Outlook(math.inf, math.inf, math.inf)
"""Of a variant that nothing more is to be given, as long as nothing can be said of it."""


class Latency(Protocol):
    """What is asked of the latency model of a variant."""

    @property
    def is_confident(self) -> bool:
        """Whether enough was seen of it."""
        ...

    @property
    def largest_run(self) -> int:
        """The largest size that has run."""
        ...

    def seconds(self, size: int) -> float:
        """Return the expected seconds of a batch; 0.0 before one has run."""
        ...

    def at_most(self, size: int) -> float:
        """Return the seconds that a batch hardly ever exceeds."""
        ...

    def largest_within(self, seconds: float, most: int) -> int:
        """Return the largest size up to `most`, at least 1, that takes at most `seconds`."""
        ...


@dataclass(frozen=True)
class Prediction:
    """What is known of the batches of a variant, and how much of them it has in hand.

    `pending_s(n)` are the seconds from now in which all that is in hand, and n more, will have been answered;
    `max_batch_size()` is the largest batch at this time.
    """

    latency: Latency
    pending_s: Callable[[int], float]
    max_batch_size: Callable[[], int]


class Switching(Several):
    """See `Engine` for the contract. Notes `variant` on each call.

    `candidates` are in the order of their accuracy, the best first, and none is below the floor: where the fastest
    of them cannot keep the promise either, its own engine refuses the call. They share the model thread, so a call
    waits for what the others have in hand, too. `slo_s` is the promise.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        predictions: Sequence[Prediction],
        counts: Counts,
        *,
        slo_s: float,
        switch: Switch | None = None,
        clock: Clock = monotonic,
    ) -> None:
        super().__init__(candidates, counts)
        self.switch = switch or Switch(len(self.candidates))
        self._predictions = tuple(predictions)
        self._slo_s = slo_s
        self._clock = clock

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        now = self._clock()
        pending = [held.pending_s(0) for held in self._predictions]
        total = sum(pending)
        outlooks = [
            Outlook(total - own + held.pending_s(1), held.latency.at_most(1), self._capacity(held))
            for own, held in zip(pending, self._predictions, strict=True)
        ]
        for number, held in enumerate(self._predictions[:-1]):
            if not held.latency.is_confident and self._has_enough_to_try(number, held):
                outlooks[number] = _UNKNOWN
        slack_s = min(call.deadline - now, self._slo_s)
        self._give(call, self.candidates[self.switch.choose(outlooks, slack_s, now)])

    def _has_enough_to_try(self, number: int, known: Prediction) -> bool:
        """Whether a variant of which little is known has as much in hand as its engine would try in one batch.

        More of a burst would bet on it: what comes then is answered by those that are faster.
        """
        engine = self.candidates[number].engine
        return engine.num_queued + engine.num_running >= max(1, 2 * known.latency.largest_run)

    def _capacity(self, known: Prediction) -> float:
        """Return the calls a second that a variant can answer in time in the long run; infinity while it is unknown.

        b / l(b) for the largest b whose batch takes half of the promise: the other half is for waiting while it fills.
        """
        size = known.latency.largest_within(self._slo_s / 2.0, known.max_batch_size())
        seconds = known.latency.seconds(size)
        return size / seconds if seconds > 0.0 else math.inf
