"""Instances on their way to their ends: they get no more calls, answer those they have, and then their process ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from faas.platform.breaker import Capacity
from faas.platform.endpoint import Endpoint
from faas.platform.instances import Instance, State


class Drains:
    """The instances of `capacity` that drain. `stop` ends the process of one within a grace period in seconds."""

    def __init__(self, capacity: Capacity, stop: Callable[[Instance, float], Coroutine[Any, Any, None]]) -> None:
        self._capacity = capacity
        self._stop = stop
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, made: Instance, endpoint: Endpoint | None, grace_s: float) -> None:
        """Drain an instance, unless its end has begun; what it has not answered within `grace_s` is cut."""
        if made.was_stopped or made.state is State.STOPPED:
            return
        made.was_stopped = True
        made.state = State.DRAINING
        idle = asyncio.Event()
        if endpoint is not None:
            self._capacity.remove(endpoint, idle.set)
        else:
            idle.set()
        task = asyncio.ensure_future(self._stop_when(idle, made, grace_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def over(self) -> None:
        """Return when those that drain now are gone."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _stop_when(self, idle: asyncio.Event, made: Instance, grace_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await idle.wait()
        await self._stop(made, grace_s if made.failure is None else 0.0)
