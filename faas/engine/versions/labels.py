"""Labels: names that lead to versions, and which version a call gets. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from faas.errors import BadLabel

STABLE: Final = "stable"
"""Where it leads somewhere, calls that name neither a version nor a label get that version."""

_LABEL: Final = re.compile(r"\w+", re.ASCII)


def check(label: str) -> str:
    """Return a label that is one. Raises BadLabel."""
    if _LABEL.fullmatch(label) is None:
        raise BadLabel(f"{label!r} is no label: use letters, digits and underscores")
    return label


def follow(current: Mapping[str, int], wanted: Mapping[str, int], available: Collection[int]) -> dict[str, int]:
    """Return where labels lead when they are to lead as `wanted`: one whose version is not available stays as it was.

    One that was nowhere, or leads to what is no longer there, leads nowhere until its version is available.
    """
    followed = {}
    for label, number in wanted.items():
        if number in available:
            followed[label] = number
        elif current.get(label) in available:
            followed[label] = current[label]
    return followed


def default(
    wanted: Mapping[str, int], followed: Mapping[str, int], ready: Collection[int], before: int | None
) -> int | None:
    """Return the version of calls that name none: where `stable` leads, if it is to lead anywhere; else the highest.

    While the version of `stable` is not ready for the first time, what was the default `before` stays it.
    """
    if STABLE not in wanted:
        return max(ready, default=None)
    if STABLE in followed:
        return followed[STABLE]
    return before if before in ready else None
