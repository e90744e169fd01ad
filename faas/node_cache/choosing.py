"""Which pinned snapshots a node can keep, and what of them it lacks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

Files = Mapping[str, int]
"""The sizes of a snapshot's files by their digests, in bytes."""


@dataclass(frozen=True)
class Choice:
    """By name: those to be kept, and those that the budget has no room for beside them."""

    kept: tuple[str, ...]
    too_large: tuple[str, ...]


def choose(pinned: Mapping[str, Files], held: Collection[str], budget_bytes: int) -> Choice:
    """Decide which of the pinned fit. Files that several share count once.

    Those that are held come first, so that a pin that is added never drives out another; then the smallest.
    """
    files: dict[str, int] = {}
    kept, too_large = [], []
    for name in sorted(pinned, key=lambda name: (name not in held, sum(pinned[name].values()), name)):
        together = {**files, **pinned[name]}
        if sum(together.values()) <= budget_bytes:
            files = together
            kept.append(name)
        else:
            too_large.append(name)
    return Choice(tuple(kept), tuple(too_large))


def lacking_bytes(wanted: Files, there: Collection[str]) -> int:
    """Return the bytes of the files that are not there, by their digests."""
    return sum(size for digest, size in wanted.items() if digest not in there)
