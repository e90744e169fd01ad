"""One version into memory, with its engines and its examples answered, and out of it again."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from faas.engine.aside import aside
from faas.engine.assembly import Shared
from faas.engine.servable import Servable
from faas.engine.versions.admission import Room, Verdict
from faas.engine.versions.lifecycle import Entry
from faas.engine.versions.states import Step
from faas.engine.versions.supply import Supply

_DRAIN_S: Final = 3600.0
"""How long a handler that nobody waits for may still run before its version is freed under it."""

logger = logging.getLogger(__name__)


class NoRoom(Exception):
    """A version does not fit beside those that are held."""


class TooSlow(Exception):
    """A version was not ready in time."""


class Bringer:
    """Loads and frees. Thawing and freeing have threads of their own; warming up goes among the calls of others."""

    def __init__(self, supply: Supply, shared: Shared, room: Room) -> None:
        self._supply = supply
        self._shared = shared
        self._room = room
        self._mapped_bytes: dict[int, int] = {}

    @property
    def mapped_bytes(self) -> int:
        """What of the held versions is mapped."""
        return sum(self._mapped_bytes.values())

    async def admit(
        self, entry: Entry, *, is_moving: Callable[[], bool], change: Callable[[], Awaitable[object]]
    ) -> None:
        """Wait for room, while it is asked for; none is taken for a version that is aspired no more.

        `is_moving` tells whether others come or go, `change` waits until something has changed.

        Raises:
            NoRoom: there is none, and none will be.
        """
        if self._room.capacity_bytes is None:
            return
        num_bytes = await aside(f"measures {self._name}", self._supply.size, entry.place)
        while entry.step is Step.REQUESTED:
            verdict = self._room.reserve(entry.number, num_bytes, under_way=is_moving())
            if verdict is Verdict.GRANTED:
                return
            if verdict is Verdict.EXHAUSTED:
                raise NoRoom(
                    f"it takes {num_bytes} bytes, and {self._room.reserved_bytes} of the {self._room.capacity_bytes} "
                    "that max_bytes allows are taken"
                )
            await change()

    def release(self, number: int) -> None:
        """Give a version's room back."""
        self._room.release(number)

    async def bring(self, entry: Entry) -> Servable:
        """Return a version that can answer.

        Raises:
            TooSlow: it took longer than an instance may take to start.
            BaseException: whatever its load, its engines or its examples raise.
        """
        limit_s = self._shared.function.spec.calls.startup_timeout_s
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await self._bring(entry)
        except TimeoutError:
            if limit.expired():
                raise TooSlow(f"it took longer than startup_timeout_s={limit_s:g}") from None
            raise

    async def _bring(self, entry: Entry) -> Servable:
        brought = self._supply.take_ahead(entry.number, entry.place)
        if brought is None:
            brought = await aside(f"loads {self._name}", self._supply.load, entry.place)
        else:
            await self._shared.thread.run(brought.handler.after_thaw)
        servable = Servable(brought.handler, self._shared, str(entry.number), entry.place)
        try:
            await servable.open()
            if not brought.is_warm:
                await servable.warm_up()
        except BaseException:
            await servable.close()
            raise
        self._mapped_bytes[entry.number] = brought.mapped_bytes
        return servable

    async def free(self, number: int, held: dict[int, Servable]) -> None:
        """Let what a version still runs end, and take it out of `held` and out of memory."""
        await held[number].drain(_DRAIN_S)
        await held[number].close()
        await aside(f"frees {self._name}", _tear_down, [held.pop(number)])
        self._mapped_bytes.pop(number, None)
        self._room.release(number)

    @property
    def _name(self) -> str:
        return self._shared.function.name


def _tear_down(last: list[Servable]) -> None:
    """Tear a handler down whose last use is over, and have its memory back."""
    try:
        last.pop().handler.teardown()
    except BaseException:  # an exit, too: this thread has nothing else to do, and the version goes whatever it says
        logger.exception("teardown() failed")
    gc.collect()  # engines and what they call hold each other
