"""Answers under a byte budget, evicted by CLOCK: first in, first out, with a second chance for what was asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

F = TypeVar("F")

Key = tuple[Hashable, bytes]
"""The scope that an answer belongs to, and the digest of its input."""

ENTRY_BYTES: Final = 400
"""What an entry takes beside its value: key, digest, its place in two tables."""


class _Entry:
    __slots__ = ("used", "value")

    def __init__(self, value: bytes) -> None:
        self.value = value
        self.used = False


class ClockCache(Generic[F]):
    """Finished answers as bytes, and computations under way, of a type `F` that is the caller's own.

    What is under way is never evicted; it takes none of the budget. `num_bytes` never exceeds `max_bytes`.

    The ring of CLOCK is a mapping in the order of insertion: its front is where the hand points, and to pass an entry
    is to put it at the end. A new entry comes right behind the hand. O(1) for each lookup, amortised for insertions.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.num_hits = 0
        self.num_misses = 0
        self._ring: OrderedDict[Key, _Entry] = OrderedDict()
        self._under_way: dict[Key, F] = {}

    def __len__(self) -> int:
        return len(self._ring)

    def find(self, key: Key) -> bytes | None:
        """Return the answer that is kept, if one is; it then has a second chance."""
        entry = self._ring.get(key)
        if entry is None:
            return None
        entry.used = True
        return entry.value

    def under_way(self, key: Key) -> F | None:
        """Return the computation that will have the answer, if there is one."""
        return self._under_way.get(key)

    def begin(self, key: Key, computation: F) -> None:
        """Say that the answer is being computed. It takes the place of an earlier computation."""
        self._under_way[key] = computation

    def abandon(self, key: Key, computation: F) -> None:
        """Say that this computation will give no answer to keep. Nothing happens where another has its place."""
        if self._under_way.get(key) is computation:
            del self._under_way[key]

    def complete(self, key: Key, computation: F, value: bytes | None) -> None:
        """End a computation with its answer, and keep it if it fits at all; None is no answer to keep."""
        self.abandon(key, computation)
        if value is None:
            return
        self.discard(key)
        num_bytes = len(value) + ENTRY_BYTES
        if num_bytes > self.max_bytes:
            return
        self._make_room(num_bytes)
        self._ring[key] = _Entry(value)
        self.num_bytes += num_bytes

    def discard(self, key: Key) -> None:
        """Keep the answer no longer, if it is kept."""
        entry = self._ring.pop(key, None)
        if entry is not None:
            self.num_bytes -= len(entry.value) + ENTRY_BYTES

    def drop(self, scope: Hashable) -> None:
        """Keep nothing of a scope any longer."""
        for key in [key for key in self._ring if key[0] == scope]:
            self.discard(key)

    def _make_room(self, num_bytes: int) -> None:
        while self.num_bytes + num_bytes > self.max_bytes:
            key, entry = next(iter(self._ring.items()))
            if entry.used:
                entry.used = False
                self._ring.move_to_end(key)
            else:
                self.discard(key)
