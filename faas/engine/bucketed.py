"""The engine around engines that joins only items of one bucket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from faas.engine import refusals
from faas.engine.engine import Engine
from faas.engine.ragged import Ragged
from faas.messages import Call


class Bucketed:
    """See `Engine` for the contract. Each bucket has an engine, and with it a queue and what is known of its times.

    At most `max_waiting` calls wait in all of them. `submit` raises BadInput for an item that no bucket holds.
    """

    def __init__(self, engines: Mapping[int, Engine], form: Ragged, max_waiting: int) -> None:
        self._engines = engines
        self._form = form
        self._max_waiting = max_waiting

    @property
    def num_queued(self) -> int:
        """Calls that wait."""
        return sum(engine.num_queued for engine in self._engines.values())

    @property
    def num_running(self) -> int:
        """Calls that are being computed."""
        return sum(engine.num_running for engine in self._engines.values())

    async def start(self) -> None:
        """See `Engine`."""
        for engine in self._engines.values():
            await engine.start()

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        self._of(call).submit(call)

    async def answer(self, call: Call) -> Any:
        """See `Engine`."""
        return await self._of(call).answer(call)

    async def drain(self, grace_s: float) -> None:
        """See `Engine`."""
        await asyncio.gather(*(engine.drain(grace_s) for engine in self._engines.values()))

    async def close(self) -> None:
        """See `Engine`."""
        await asyncio.gather(*(engine.close() for engine in self._engines.values()))

    def _of(self, call: Call) -> Engine:
        engine = self._engines[self._form.bucket(call.kwargs)]
        num_queued = self.num_queued
        if num_queued >= self._max_waiting:
            raise refusals.queue_full(num_queued, 0.0)
        return engine
