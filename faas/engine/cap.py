"""The largest batch that memory suffices for, as far as is known. Pure.

A batch that runs out of memory halves the cap. Memory may have been short for another's sake, so after a while the cap
is raised again by an eighth; where that goes wrong it returns to what went well, and tries again half as often.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Final

PATIENCE: Final = 100
"""Batches of more than half the cap that must have gone well before it is raised."""

MAX_PATIENCE: Final = 64 * PATIENCE


class Cap:
    """The cap of an engine whose batches may hold `most` items, and are padded up to `sizes` where there are any."""

    def __init__(self, most: int, sizes: Sequence[int] = ()) -> None:
        self.limit = most
        self._most = most
        self._sizes = sizes
        self._went_well = 0  # the limit from which it was last raised
        self._num_well = 0
        self._patience = PATIENCE

    def exhausted(self, size: int) -> None:
        """Learn that memory did not suffice for a batch of `size` items, padding included."""
        if 0 < self._went_well < size:
            self._patience = min(MAX_PATIENCE, 2 * self._patience)
            self.limit = self._went_well
        else:
            self.limit = self._held_by(max(1, min(size, self.limit) // 2))
        self._went_well = self._num_well = 0

    def went_well(self, size: int) -> None:
        """Learn that it sufficed for a batch of `size` items."""
        if self.limit >= self._most or 2 * size <= self.limit:
            return
        self._num_well += 1
        if self._num_well >= self._patience:
            self._went_well, self._num_well = self.limit, 0
            self.limit = self._next()

    def _held_by(self, size: int) -> int:
        """Return the largest size up to `size` that a batch is padded to; the smallest where all are larger."""
        if not self._sizes:
            return size
        return self._sizes[max(0, bisect.bisect_right(self._sizes, size) - 1)]

    def _next(self) -> int:
        if self._sizes:
            return self._sizes[min(len(self._sizes) - 1, bisect.bisect_right(self._sizes, self.limit))]
        return min(self._most, self.limit + max(1, self.limit // 8))
