"""Which of the versions that there are should be held. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from faas.spec.versions import VersionPolicy

MAX_NUMBER: Final = 2**63 - 1


def number_of(name: str) -> int | None:
    """Return the version that a name is, None where it is none: decimal digits alone, as 64 bits hold them."""
    if not (name.isascii() and name.isdigit()):
        return None
    number = int(name)
    return number if number <= MAX_NUMBER else None


@dataclass(frozen=True)
class Named:
    """The versions among names, each with the name that it goes by; in words, which names lost to another."""

    names: dict[int, str]
    warnings: tuple[str, ...] = ()


def named(names: Iterable[str]) -> Named:
    """Find the versions among names, and ignore all others.

    Where several names are one number, the one without zeros in front wins, else the first in order.
    """
    found: dict[int, str] = {}
    warnings = []
    for name in sorted(names, key=lambda name: (len(name), name)):
        number = number_of(name)
        if number is None:
            continue
        if number in found:
            warnings.append(f"{name} and {found[number]} are both version {number}; {found[number]} is used")
        else:
            found[number] = name
    return Named(found, tuple(warnings))


@dataclass(frozen=True)
class Choice:
    """The versions that should be held, and what is odd about that, in words."""

    numbers: frozenset[int]
    warnings: tuple[str, ...] = ()


def choose(policy: VersionPolicy, found: Collection[int], *, num: int = 1, versions: Sequence[int] = ()) -> Choice:
    """Return which of the versions that are `found` the policy asks for.

    "latest": the `num` highest, of 0 as of 1. "all". "specific": those in `versions`; one that is missing is warned of,
    and so are no versions at all.
    """
    if policy == "all":
        return Choice(frozenset(found))
    if policy == "latest":
        return Choice(frozenset(sorted(found, reverse=True)[: max(1, num)]))
    if not versions:
        return Choice(frozenset(), ("the policy is specific and names no version: nothing is held by it",))
    missing = sorted(set(versions) - set(found))
    warnings = tuple(f"the policy names version {number}, which is not there" for number in missing)
    return Choice(frozenset(versions) & frozenset(found), warnings)
