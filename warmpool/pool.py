"""The warm pool: workers of any environment, each as fast as it can be had."""

import asyncio
from types import TracebackType
from typing import Self

from warmpool.client import Zygote
from warmpool.environment import Environment
from warmpool.errors import PoolClosed, ZygoteStartError
from warmpool.process import Worker
from warmpool.protocol import Request
from warmpool.station import Station


class WarmPool:
    """Zygotes by environment, and `buffer` workers parked for each. Use it in one event loop, and close it there."""

    def __init__(self, *, buffer: int = 0, start_timeout_s: float = 120.0) -> None:
        self._buffer = buffer
        self._start_timeout_s = start_timeout_s
        self._stations: dict[Environment, Station] = {}
        self._lingering: dict[asyncio.Future[None], Station] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def warm(self, environment: Environment, *, buffer: int | None = None) -> Zygote:
        """Have the environment's zygote ready and its workers parked; return the zygote.

        Where a hot zygote cannot be had it is the one without the preload, and the log says why. `buffer` replaces the
        pool's own for this environment. Raises ZygoteStartError, PoolClosed.
        """
        station = self._station(environment)
        if buffer is not None:
            station.set_buffer(buffer)
        try:
            return await station.warm()
        except ZygoteStartError:
            if environment.preload is None:
                raise
            return await self.warm(environment.base, buffer=buffer)

    async def take(self, environment: Environment, request: Request) -> Worker:
        """Return a worker that runs `request`: a parked one, else one forked, else, with a warning, one by exec.

        The first of an environment waits for its zygote. Raises WorkerStartError when not even exec works,
        ProtocolError when the request is too big, PoolClosed.
        """
        return await self._station(environment).take(request)

    def num_parked(self, environment: Environment) -> int:
        """Return how many workers wait for a request of this environment."""
        station = self._stations.get(environment)
        return 0 if station is None else len(station.parked)

    async def retire(self, environment: Environment, *, keep_workers: bool = False, grace_s: float = 5.0) -> None:
        """End everything of one environment, as `close` does.

        With `keep_workers` only what is parked ends now, and the rest when the last worker that was taken has ended.
        The last hot environment takes the one that it is forked from with it.
        """
        station = self._stations.pop(environment, None)
        if station is None:
            return
        if environment.preload is not None and all(other.base != environment.base for other in self._hot()):
            await self.retire(environment.base, keep_workers=keep_workers, grace_s=grace_s)
        if not keep_workers:
            await station.close(grace_s)
            return
        lingering = asyncio.ensure_future(station.linger())
        self._lingering[lingering] = station
        lingering.add_done_callback(self._lingering.pop)

    async def close(self, *, grace_s: float = 5.0) -> None:
        """End every zygote, parked worker, and worker that was taken and still lives; leave no process.

        Taken workers get SIGTERM and, after `grace_s`, SIGKILL: drain them first if that matters.
        """
        self._closed = True
        for lingering in self._lingering:
            lingering.cancel()
        stations = [*self._stations.values(), *self._lingering.values()]
        self._stations.clear()
        await asyncio.gather(*(station.close(grace_s) for station in stations))

    def _hot(self) -> list[Environment]:
        return [environment for environment in self._stations if environment.preload is not None]

    def _station(self, environment: Environment) -> Station:
        if self._closed:
            raise PoolClosed("the pool has been closed and starts no worker")
        station = self._stations.get(environment)
        if station is None:
            base = self._station(environment.base) if environment.preload is not None else None
            station = Station(environment, self._buffer, self._start_timeout_s, base=base)
            self._stations[environment] = station
        return station
