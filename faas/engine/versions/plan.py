"""The file beside a function's versions, and what follows from it and from the function's own settings. Pure.

All instances of a function follow the file: labels, and whatever it says in place of the settings in the code.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from faas.engine.versions import labels as rules
from faas.engine.versions.labels import STABLE
from faas.engine.versions.policies import Choice, choose
from faas.errors import BadLabel, SettingError
from faas.spec.versions import Transition, VersionMode, VersionPolicy, Versions

FILE: Final = "versions.json"
FORMAT: Final = 1
MAX_KEPT: Final = 20
"""Earlier versions of `stable` that can be gone back to."""
SETTINGS: Final = ("policy", "num", "versions", "transition", "mode")
"""What the file may say in place of a function's own settings."""


class Wishes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the file says. What is None is as the function's own settings say.

    `labels` lead to versions, which are held whatever the policy says. `also` are held as well: they are being made
    ready for a label. `before` are the versions that `stable` led to before, the latest last; None is that it led
    nowhere. `is_loaded` holds what the policy says where that waits to be asked for (`mode` "explicit").
    """

    format: int = FORMAT
    policy: VersionPolicy | None = None
    num: int | None = None
    versions: tuple[int, ...] | None = None
    transition: Transition | None = None
    mode: VersionMode | None = None
    labels: dict[str, int] = {}
    also: tuple[int, ...] = ()
    before: tuple[int | None, ...] = ()
    is_loaded: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """What is said in place of the function's own settings, by name."""
        return {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}


@dataclass(frozen=True)
class Plan:
    """What an instance is to hold, and where labels are to lead."""

    policy: VersionPolicy
    num: int
    versions: tuple[int, ...]
    transition: Transition
    is_explicit: bool
    is_loaded: bool
    labels: dict[str, int]
    also: tuple[int, ...]


def read(content: bytes | None) -> Wishes:
    """Return what the content of the file says; None, where there is no file, says nothing.

    Raises:
        SettingError: it is nothing that this version understands.
    """
    if content is None:
        return Wishes()
    try:
        wishes = msgspec.json.decode(content.removeprefix(BOM_UTF8), type=Wishes)  # some editors begin a file with it
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SettingError(f"{FILE}: {error}") from None
    if wishes.format != FORMAT:
        raise SettingError(f"{FILE} is of format {wishes.format}; this version reads {FORMAT}")
    try:
        for label in wishes.labels:
            rules.check(label)
        _spec(Versions(), wishes)
    except (BadLabel, SettingError) as error:
        raise SettingError(f"{FILE}: {error}") from None
    return wishes


def write(wishes: Wishes) -> bytes:
    """Return the content of the file that says this."""
    return msgspec.json.format(msgspec.json.encode(wishes))


def make(spec: Versions, wishes: Wishes) -> Plan:
    """Return what follows from a function's settings and the file. Raises SettingError where they contradict."""
    merged = _spec(spec, wishes)
    return Plan(
        policy=merged.policy,
        num=merged.num,
        versions=merged.versions,
        transition=merged.transition,
        is_explicit=merged.mode == "explicit" or merged.poll_s < 0,
        is_loaded=wishes.is_loaded,
        labels=dict(wishes.labels),
        also=wishes.also,
    )


def aspired(plan: Plan, found: Collection[int]) -> Choice:
    """Return which of the versions that are there an instance should hold: the policy's, and those that labels need."""
    if plan.is_explicit and not plan.is_loaded:
        return Choice(frozenset())
    chosen = choose(plan.policy, found, num=plan.num, versions=plan.versions)
    missing = tuple(
        f"the label {label} leads to version {number}, which is not there"
        for label, number in sorted(plan.labels.items())
        if number not in found
    )
    more = frozenset((*plan.labels.values(), *plan.also)) & frozenset(found)
    return Choice(chosen.numbers | more, chosen.warnings + missing)


def older(plan: Plan, found: Collection[int], tried: Collection[int]) -> int | None:
    """Return the version to hold where none of those that were tried can be: the next one below, if that may be."""
    if plan.policy != "latest" or rules.STABLE in plan.labels:
        return None
    return max((number for number in found if tried and number < min(tried)), default=None)


def readying(wishes: Wishes, number: int | None) -> Wishes:
    """Return the same, with a version held that a label is about to lead to."""
    return msgspec.structs.replace(wishes, also=() if number is None else (number,))


def labelled(wishes: Wishes, label: str, number: int | None) -> Wishes:
    """Return the same with a label that leads to a version, or nowhere. Raises BadLabel."""
    after = {name: led for name, led in wishes.labels.items() if name != rules.check(label)}
    if number is not None:
        after[label] = number
    before = wishes.before
    if label == STABLE and wishes.labels.get(STABLE) != number:
        before = (*before, wishes.labels.get(STABLE))[-MAX_KEPT:]
    return msgspec.structs.replace(wishes, labels=after, also=(), before=before)


def rolled_back(wishes: Wishes) -> Wishes:
    """Return the same with `stable` leading to where it led before. Raises SettingError where it led nowhere before."""
    if not wishes.before:
        raise SettingError("no version was promoted before, so there is none to go back to")
    after = labelled(wishes, STABLE, wishes.before[-1])
    return msgspec.structs.replace(after, before=wishes.before[:-1])


def _spec(spec: Versions, wishes: Wishes) -> Versions:
    said = wishes.settings
    mine = {name: getattr(spec, name) for name in SETTINGS}
    if said.get("policy", "specific") != "specific":
        mine["versions"] = ()
    return Versions(**{**mine, **said, "poll_s": spec.poll_s})
