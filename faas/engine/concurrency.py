"""How many items callers have in play at once, guessed from the batches that ran."""

from __future__ import annotations

from typing import Final

_MAX_FAILURES: Final = 6


class Concurrency:
    """What the adaptive policy expects to come.

    The callers that are answered by a batch often call again at once; with those who queued meanwhile they are the
    concurrency, if they come. A gather that fell short lowers it to those who came. After `wait_s` without a batch
    nothing is expected: a lone caller waits for nobody.

    An item that queued while a batch ran has waited already. Gathering for it a while longer, counted from the moment
    the executor fell idle, brings callers that have drifted apart back into one batch, where callers return; where they
    come on their own account it would be for nothing. So that is done on trust: each time it falls short it is left
    alone for twice as many batches as before, at most 2**6.
    """

    def __init__(self, wait_s: float, max_batch_size: int) -> None:
        self._wait_s = wait_s
        self._max_batch_size = max_batch_size
        self._num_recent = 1
        self._idle_since = float("-inf")
        self._failures = 0
        self._distrusted_batches = 0

    @property
    def idle_since(self) -> float:
        """When the last batch ended; minus infinity before any has."""
        return self._idle_since

    def ended(self, num_items: int, num_queued: int, now: float) -> None:
        """Learn that a batch ended, and how many waited at that moment."""
        self._num_recent = min(self._max_batch_size, num_items + num_queued)
        self._idle_since = now
        self._distrusted_batches = max(0, self._distrusted_batches - 1)

    def gathered(self, num: int, *, oldest_at: float) -> None:
        """Learn that a gather ended with `num` items; fewer than were expected means that it fell short."""
        on_trust = self.gather_from(oldest_at) > oldest_at
        short = num < self._num_recent
        if on_trust:
            self._failures = min(_MAX_FAILURES, self._failures + 1) if short else max(0, self._failures - 1)
            self._distrusted_batches = 2**self._failures if short else 0
        if short:
            self._num_recent = num

    def expected(self, oldest_at: float) -> int:
        """Return how many items are worth waiting for, a full batch at most, given when the oldest one came."""
        return self._num_recent if oldest_at - self._idle_since <= self._wait_s else 1

    def gather_from(self, oldest_at: float) -> float:
        """Return the moment from which a gather for that item is counted."""
        return oldest_at if self._distrusted_batches else max(oldest_at, self._idle_since)
