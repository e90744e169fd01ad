"""The zygotes of a platform's revisions: made ready before a revision runs, let go when none needs them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from faas.platform import forking
from faas.preparation import Preparation
from warmpool.errors import WarmpoolError
from warmpool.pool import WarmPool

PARKED_PER_ENVIRONMENT = 1
"""Workers forked ahead for each import set, whatever its functions ask for: a wake-up then waits for no fork."""


class Zygotes:
    """Has a pool hold what revisions are forked from. `in_use` gives the preparations of all that run."""

    def __init__(
        self, pool: WarmPool, in_use: Callable[[], Iterable[Preparation]], progress: Callable[[str], None]
    ) -> None:
        self._pool = pool
        self._in_use = in_use
        self._progress = progress
        self._changes: set[asyncio.Task[None]] = set()

    async def warm(self, preparation: Preparation) -> None:
        """Have a revision's zygote ready and its workers parked. Raises ZygoteStartError, PoolClosed."""
        parked = max(PARKED_PER_ENVIRONMENT, preparation.description.buffer_instances)
        zygote = await self._pool.warm(forking.environment(preparation), buffer=parked)
        if zygote.hazard is not None:
            self._progress(f"{preparation.name}: no forks, instances start slowly: {zygote.hazard}")

    async def warm_all(self) -> None:
        """Return when all that run have their zygotes, as many at a time as cores; who cannot have one is named."""
        at_once = asyncio.Semaphore(os.cpu_count() or 1)
        await asyncio.gather(*(self._try_to_warm(preparation, at_once) for preparation in self._in_use()))

    async def _try_to_warm(self, preparation: Preparation, at_once: asyncio.Semaphore) -> None:
        async with at_once:
            if all(other is not preparation for other in self._in_use()):
                return  # replaced meanwhile by one that is warm
            self._progress(f"starting the zygote of {preparation.name}")
            try:
                await self.warm(preparation)
            except WarmpoolError as error:
                self._progress(f"{preparation.name} cannot be started: {error}")

    def release(self, preparation: Preparation) -> None:
        """Let a zygote go that no revision which runs is forked from; instances of it end as they would."""
        self._keep(self._release(preparation))

    def replace(self, old: Preparation, new: Preparation, then: Callable[[], None]) -> None:
        """Start the zygote of `new`, call `then`, and let the one of `old` go, or that of `new` if it is not used."""
        self._keep(self._replace(old, new, then))

    def close(self) -> None:
        """Give up what is being changed."""
        for change in self._changes:
            change.cancel()

    async def _replace(self, old: Preparation, new: Preparation, then: Callable[[], None]) -> None:
        try:
            await self.warm(new)
        except WarmpoolError as error:
            self._progress(f"{new.name}: the zygote with all that its calls import cannot be started: {error}")
        else:
            then()
            await self._release(old)
        await self._release(new)

    async def _release(self, preparation: Preparation) -> None:
        environment = forking.environment(preparation)
        if all(forking.environment(other) != environment for other in self._in_use()):
            await self._pool.retire(environment, keep_workers=True)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        change = asyncio.ensure_future(work)
        self._changes.add(change)
        change.add_done_callback(self._changes.discard)
