"""What an instance knows of its versions, and what it does next with them. No clock, no I/O.

What is aspired is said as a whole each time, and replaces what was said before. A version that is not aspired any more
is unloaded; aspired again before that is over, its unloading is finished first and then it is loaded anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from faas.engine.versions.retries import Retries
from faas.engine.versions.states import Step
from faas.engine.versions.transitions import Action, Load, Rule, Seen, Unload, availability_preserving

_UNDER_WAY: Final = (Step.REQUESTED, Step.LOADING, Step.QUIESCING, Step.UNLOADING)

MAX_ENDED: Final = 16
"""Versions that are remembered, for who asks, when they are gone."""


@dataclass
class Entry:
    """One version. `place` is where it is, and tells two of one number apart.

    `reason` is why it could not be loaded when that was tried last, and `code` the kind of that, by its canonical name.
    """

    number: int
    place: str
    step: Step = Step.NEW
    is_aspired: bool = True
    num_failures: int = 0
    not_before: float = 0.0
    reason: str | None = None
    code: str = "OK"


def _ignore(_: Entry) -> None:
    """Nobody looks on."""


class Lifecycle:
    """The versions of one function in one instance. `changed` is called with each that takes a step."""

    def __init__(self, retries: Retries, *, changed: Callable[[Entry], None] = _ignore) -> None:
        self.rule: Rule = availability_preserving
        self._retries = retries
        self._changed = changed
        self._entries: dict[int, Entry] = {}
        self._wanted: dict[int, str] = {}

    @property
    def entries(self) -> list[Entry]:
        """All that are known, the highest first."""
        return sorted(self._entries.values(), key=lambda entry: -entry.number)

    def get(self, number: int) -> Entry | None:
        """Return a version, None where nothing is known of it."""
        return self._entries.get(number)

    @property
    def wanted(self) -> dict[int, str]:
        """What is aspired: the numbers, and the places of each."""
        return dict(self._wanted)

    @property
    def is_settled(self) -> bool:
        """Whether all is as it should be, as far as it can be: nothing is under way but waits between tries."""
        return self.rule(self._seen) is None and not any(one.step in _UNDER_WAY for one in self._entries.values())

    def is_moving(self, beside: Entry) -> bool:
        """Whether others than this one come or go."""
        moving = (Step.LOADING, Step.QUIESCING, Step.UNLOADING)
        return any(one.step in moving for one in self._entries.values() if one is not beside)

    def aspire(self, wanted: Mapping[int, str]) -> None:
        """Hold these from now on, each from its place, and no others."""
        self._wanted = dict(wanted)
        for entry in list(self._entries.values()):
            was, entry.is_aspired = entry.is_aspired, self._wanted.get(entry.number) == entry.place
            if entry.step.is_final and not was:
                self._renew(entry)
            elif not entry.is_aspired and entry.step in (Step.NEW, Step.REQUESTED, Step.RETRYING):
                self.move(entry.number, Step.DISABLED)
            elif not entry.is_aspired and entry.step is Step.ERROR:
                self._renew(entry)
        for number, place in self._wanted.items():
            if number not in self._entries:
                self._add(Entry(number, place))
        self._forget()

    def next(self, now: float, *, may_load: bool = True) -> Action | None:
        """Return what is to be done now; it is done once the version has been moved."""
        action = self.rule(self._seen)
        if isinstance(action, Unload):
            return action
        if not may_load:
            return None
        due = [one for one in self._entries.values() if one.step is Step.RETRYING and now >= one.not_before]
        return Load(max(one.number for one in due)) if due else action

    @property
    def next_try_at(self) -> float:
        """The moment of the next try to load what could not be loaded."""
        waiting = [one.not_before for one in self._entries.values() if one.step is Step.RETRYING]
        return min(waiting, default=math.inf)

    def move(self, number: int, step: Step) -> None:
        """Note that a version has taken a step."""
        entry = self._entries[number]
        entry.step = step
        if step is Step.READY:
            entry.num_failures, entry.reason, entry.code = 0, None, "OK"
        self._changed(entry)
        if step is Step.DISABLED:
            self._renew(entry)

    def failed(self, number: int, reason: str, now: float, *, code: str = "UNKNOWN") -> None:
        """Note that a version could not be loaded: it is tried again, unless it is given up or aspired no more."""
        entry = self._entries[number]
        entry.num_failures += 1
        entry.reason, entry.code = reason, code
        again_at = self._retries.after(entry.num_failures, now) if entry.is_aspired else None
        if again_at is not None:
            entry.not_before = again_at
        self.move(number, Step.RETRYING if again_at is not None else Step.ERROR)
        if not entry.is_aspired:
            self._renew(entry)

    def try_again(self, number: int) -> None:
        """Begin anew with a version that could not be loaded, where it is aspired."""
        entry = self._entries.get(number)
        if entry is not None and entry.is_aspired and entry.step in (Step.RETRYING, Step.ERROR):
            self._renew(entry)

    @property
    def _seen(self) -> list[Seen]:
        return [Seen(one.number, one.step, one.is_aspired) for one in self._entries.values()]

    def _renew(self, entry: Entry) -> None:
        """Begin anew with a version that has ended, where it is aspired."""
        place = self._wanted.get(entry.number)
        if place is not None:
            self._add(Entry(entry.number, place))

    def _add(self, entry: Entry) -> None:
        self._entries[entry.number] = entry
        self._changed(entry)

    def _forget(self) -> None:
        ended = [one.number for one in self.entries if one.step.is_final and not one.is_aspired]
        for number in ended[MAX_ENDED:]:
            del self._entries[number]
