"""What all instances of a function hold of its versions, and where its labels lead: shown, and changed in all at once.

A change is written to the file beside the versions, and every instance is told to follow it. Where a label is to lead
to a version, the instances first have that version ready, all of them; one that cannot leaves everything as it was. A
change is over when each instance has followed, and the calls that it had before are answered.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from faas.engine.versions import plan, source
from faas.engine.versions.labels import STABLE
from faas.engine.versions.plan import Wishes
from faas.engine.versions.source import Look, Source, SourceError
from faas.engine.versions.states import State
from faas.errors import BadLabel, PlatformError, SettingError
from faas.instance_messages import Followed
from faas.platform.hosted import Hosted
from faas.platform.instances import Instance

Follow = Callable[[Instance], Awaitable[Followed | None]]
Change = Callable[[Wishes], Wishes]


class Versioning:
    """Changes the versions of functions. `follow` has an instance look at them, and returns what it says then."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def describe(self, hosted: Hosted) -> dict[str, Any]:
        """Return what is known: the versions there are, what the file says, what each instance holds.

        Raises:
            PlatformError: it has no versions, or they cannot be looked at.
        """
        where, look, wishes = await self._look(hosted)
        return {
            "name": hosted.name,
            "source": where.title,
            "versions": sorted(look.places, reverse=True),
            "labels": wishes.labels,
            "before": list(wishes.before),
            "settings": wishes.settings,
            "instances": {made.id: followed.versions for made, followed in await self._follow_all(hosted)},
        }

    async def promote(self, hosted: Hosted, to: int | None, label: str = STABLE) -> dict[str, Any]:
        """Have a label lead to a version, in all instances; None has it lead nowhere, and `stable` to the latest.

        Raises:
            PlatformError: there is no such version, or an instance cannot have it ready; all is then as before.
        """
        return await self._change(hosted, lambda wishes: plan.labelled(wishes, label, to), label)

    async def roll_back(self, hosted: Hosted) -> dict[str, Any]:
        """Have `stable` lead to where it led before. Raises PlatformError, as `promote` does."""
        return await self._change(hosted, plan.rolled_back, STABLE)

    async def can_roll_back(self, hosted: Hosted) -> bool:
        """Tell whether a version was promoted before. Raises PlatformError where that cannot be looked at."""
        return is_versioned(hosted) and bool((await self._look(hosted))[2].before)

    async def set(self, hosted: Hosted, changes: dict[str, Any]) -> dict[str, Any]:
        """Change what the file says in place of the function's own settings; None leaves a setting to these again.

        Raises:
            PlatformError: it has no versions, or a setting is wrong.
        """
        return await self._change(hosted, lambda wishes: msgspec.structs.replace(wishes, **changes))

    async def load(self, hosted: Hosted) -> dict[str, Any]:
        """Have all instances hold what they are to hold, where that waits to be asked for, and look anew."""
        return await self.set(hosted, {"is_loaded": True})

    async def unload(self, hosted: Hosted) -> dict[str, Any]:
        """Have all instances hold nothing until it is asked for."""
        return await self.set(hosted, {"is_loaded": False, "mode": "explicit"})

    async def _change(self, hosted: Hosted, change: Change, label: str | None = None) -> dict[str, Any]:
        async with self._changing[hosted.name]:
            where, look, before = await self._look(hosted)
            try:
                after = plan.read(plan.write(change(before)))
            except (SettingError, BadLabel) as error:
                raise PlatformError(f"{hosted.name}: {error}") from None
            number = None if label is None else after.labels.get(label)
            if number is not None and before.labels.get(str(label)) != number:
                await self._make_ready(hosted, where, look, (before, number))
            await _write(where, after)
            await self._follow_all(hosted)
        return await self.describe(hosted)

    async def _make_ready(self, hosted: Hosted, where: Source, look: Look, wanted: tuple[Wishes, int]) -> None:
        """Have a version ready in all instances, or leave all as it was. Raises PlatformError."""
        before, number = wanted
        if number not in look.places:
            known = ", ".join(map(str, sorted(look.places))) or "none"
            raise PlatformError(f"{hosted.name} has no version {number} at {where.title}; it has: {known}")
        writing = asyncio.ensure_future(_write(where, plan.readying(before, number)))
        try:
            await asyncio.shield(writing)  # it cannot be stopped half way, so it has to be undone
            followed = await self._follow_all(hosted)
        except BaseException:
            await asyncio.wait((writing,))
            if writing.exception() is None:
                await asyncio.shield(_write(where, before))
            raise
        failures = [failure for made, said in followed if (failure := _not_ready(made, said, number)) is not None]
        if failures:
            await _write(where, before)
            await self._follow_all(hosted)
            what = f"version {number} of {hosted.name} does not get ready, and gets no calls"
            raise PlatformError(f"{what}: {failures[0]}")

    async def _follow_all(self, hosted: Hosted) -> list[tuple[Instance, Followed]]:
        """Have all instances follow the file; returns what each says then."""
        loops = [loop for loop in hosted.loops if loop.preparation.versions == _place(hosted)]
        instances = [made for loop in loops for made in loop.instances if made.serves]
        said = await asyncio.gather(*(self._follow(made) for made in instances))
        return [(made, one) for made, one in zip(instances, said, strict=True) if one is not None]

    async def _look(self, hosted: Hosted) -> tuple[Source, Look, Wishes]:
        place = _place(hosted)
        if place is None:
            raise PlatformError(
                f"{hosted.name} runs without versions; faas snapshot create TARGET --version 1 makes one, and "
                "faas deploy --local TARGET has it served"
            )
        try:
            where = source.find(place)
            look = await asyncio.to_thread(where.look)
            return where, look, plan.read(look.file)
        except (SourceError, SettingError) as error:
            raise PlatformError(f"the versions of {hosted.name} cannot be followed: {error}") from None


def is_versioned(hosted: Hosted) -> bool:
    """Tell whether a function is served with versions."""
    return _place(hosted) is not None


def _place(hosted: Hosted) -> str | None:
    return None if hosted.main is None else hosted.main.preparation.versions


def _not_ready(made: Instance, said: Followed, number: int) -> str | None:
    """Return why a version is not ready in an instance, None where it is."""
    if said.failure is not None:
        return f"{made.id}: {said.failure}"
    for row in said.versions["versions"]:
        if row["version"] == number and row["state"] == State.AVAILABLE.name:
            return None
        if row["version"] == number:
            return f"{made.id}: {row['reason'] or row['step']}"
    return f"{made.id} does not know of it"


async def _write(where: Source, wishes: Wishes) -> None:
    try:
        await asyncio.to_thread(where.write, plan.write(wishes))
    except SourceError as error:
        raise PlatformError(str(error)) from None
