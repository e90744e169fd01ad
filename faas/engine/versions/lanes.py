"""Ways to the versions that are served, and who is on them. Belongs to the event loop's thread.

A call takes the lane of the version or the label that it names, or that of the default, and is on it until its outcome.
When a label or the default is to lead to another version it gets a new lane, so that it can be told when nobody is on
the old one any more, and a version is let go when nobody is on any lane to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from faas.engine.servable import Servable
from faas.errors import BadLabel, Unavailable, UnknownVersion
from faas.messages import Call, Context


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call asks for: a version or a label, one of them."""

    version: int | None = None
    label: str | None = None


class Lane:
    """A way to one version."""

    __slots__ = ("_emptied", "num_calls", "servable")

    def __init__(self, servable: Servable) -> None:
        self.servable = servable
        self.num_calls = 0
        self._emptied: asyncio.Event | None = None

    def leave(self) -> None:
        """Let a call go that is on it."""
        self.num_calls -= 1
        if self.num_calls == 0 and self._emptied is not None:
            self._emptied.set()

    async def emptied(self) -> None:
        """Wait until no call is on it. Nobody must be led onto it any more."""
        if self.num_calls:
            self._emptied = self._emptied or asyncio.Event()
            await self._emptied.wait()


class VersionedCall(Call):
    """A call of a function with versions: what it asks for, and the lane that it is on until its outcome."""

    __slots__ = ("asked", "lane")

    def __init__(self, kwargs: dict[str, Any], context: Context, priority: int = 0) -> None:
        super().__init__(kwargs, context, priority)
        self.asked: Asked | None = None
        self.lane: Lane | None = None

    def take(self, lane: Lane) -> None:
        """Be on a lane."""
        self.lane = lane
        lane.num_calls += 1
        self.context.model_version = lane.servable.version

    def let_go(self) -> None:
        """Be on no lane."""
        lane, self.lane = self.lane, None
        if lane is not None:
            lane.leave()

    def _end(self) -> None:
        super()._end()
        self.let_go()


class Lanes:
    """The lanes that calls can take now. `why_none` says why there is no default."""

    def __init__(self, name: str, why_none: Callable[[], str]) -> None:
        self._name = name
        self._why_none = why_none
        self._by_number: dict[int, Lane] = {}
        self._by_label: dict[str, tuple[int, Lane]] = {}
        self._default: tuple[int, Lane] | None = None
        self._left: dict[Lane, int] = {}

    @property
    def ready(self) -> list[int]:
        """The versions that calls can get."""
        return list(self._by_number)

    @property
    def labels(self) -> dict[str, int]:
        """Where labels lead."""
        return {label: number for label, (number, _) in self._by_label.items()}

    @property
    def default(self) -> int | None:
        """The version of calls that ask for none."""
        return None if self._default is None else self._default[0]

    def to(self, asked: Asked | None) -> Lane:
        """Return the lane of a call.

        Raises:
            UnknownVersion, BadLabel: what it asks for is not served.
            Unavailable: it asks for nothing, and nothing is served.
        """
        if asked is None:
            if self._default is None:
                raise Unavailable(self._why_none())
            return self._default[1]
        if asked.label is not None:
            found = self._by_label.get(asked.label)
            if found is None:
                known = ", ".join(sorted(self._by_label)) or "none"
                raise BadLabel(f"{self._name} has no label {asked.label!r} that leads to a version; it has: {known}")
            return found[1]
        lane = self._by_number.get(asked.version) if asked.version is not None else None
        if lane is None:
            known = ", ".join(map(str, sorted(self._by_number))) or "none"
            raise UnknownVersion(f"version {asked.version} of {self._name} is not served; these are: {known}")
        return lane

    def add(self, number: int, servable: Servable) -> None:
        """Let calls get a version that can answer."""
        self._by_number[number] = Lane(servable)

    def lead(self, labels: Mapping[str, int], default: int | None) -> None:
        """Have labels and the default lead to versions that calls can get, and nowhere else."""
        for label, (number, lane) in list(self._by_label.items()):
            if labels.get(label) != number:
                del self._by_label[label]
                self._leave(number, lane)
        for label, number in labels.items():
            if label not in self._by_label:
                self._by_label[label] = (number, Lane(self._by_number[number].servable))
        if default != self.default:
            if self._default is not None:
                self._leave(*self._default)
            self._default = None if default is None else (default, Lane(self._by_number[default].servable))

    def remove(self, number: int) -> list[Lane]:
        """Let no more calls get a version, to which no label and no default leads; return the lanes still to empty."""
        self._leave(number, self._by_number.pop(number))
        return [lane for lane, of in self._left.items() if of == number]

    async def left(self) -> None:
        """Wait until nobody is on a lane that was led away from by now."""
        for lane in list(self._left):
            await lane.emptied()
            self._left.pop(lane, None)

    def _leave(self, number: int, lane: Lane) -> None:
        self._left = {one: of for one, of in self._left.items() if one.num_calls}
        if lane.num_calls:
            self._left[lane] = number
