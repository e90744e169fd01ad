"""The engine of one endpoint of a function with versions: it leads each call to the engine of the version it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from faas.engine import refusals
from faas.engine.engine import Engine
from faas.engine.servable import Servable
from faas.engine.versions.lanes import Lanes, VersionedCall
from faas.messages import Call


class Versioned:
    """See `Engine`. `servables` gives all versions that are loaded, those that calls no longer get among them."""

    def __init__(self, path: str, lanes: Lanes, servables: Callable[[], Collection[Servable]]) -> None:
        self._path = path
        self._lanes = lanes
        self._servables = servables
        self._ending = False

    @property
    def num_queued(self) -> int:
        """Calls that wait, for whichever version."""
        return sum(servable.engines[self._path].num_queued for servable in self._servables())

    @property
    def num_running(self) -> int:
        """Calls that are being computed, by whichever version."""
        return sum(servable.engines[self._path].num_running for servable in self._servables())

    async def start(self) -> None:
        """Nothing to do."""

    def submit(self, call: Call) -> None:
        """See `Engine`. It must be a `VersionedCall`.

        Raises:
            UnknownVersion, BadLabel: what it asks for is not served.
        """
        if self._ending:
            raise refusals.stopping()
        if call.done:
            return
        assert isinstance(call, VersionedCall)
        engine = self._take(call)
        try:
            engine.submit(call)
        except BaseException:
            call.let_go()
            raise

    async def answer(self, call: Call) -> Any:
        """See `Engine`, and `submit`."""
        if self._ending or call.done:
            self.submit(call)
            return await call.result()
        assert isinstance(call, VersionedCall)
        try:
            return await self._take(call).answer(call)
        finally:
            call.let_go()

    async def drain(self, grace_s: float) -> None:
        """See `Engine`."""
        self._ending = True
        await asyncio.gather(*(one.engines[self._path].drain(grace_s) for one in self._servables()))

    async def close(self) -> None:
        """See `Engine`."""
        self._ending = True
        await asyncio.gather(*(one.engines[self._path].close() for one in self._servables()))

    def _take(self, call: VersionedCall) -> Engine:
        lane = self._lanes.to(call.asked)
        call.take(lane)
        return lane.servable.engines[self._path]
