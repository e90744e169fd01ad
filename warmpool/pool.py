"""The warm pool: workers of any environment, each as fast as it can be had."""

import asyncio
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from warmpool import memory, policy
from warmpool.client import Zygote
from warmpool.environment import Environment
from warmpool.errors import PoolClosed, ZygoteStartError
from warmpool.process import Worker
from warmpool.protocol import Request
from warmpool.station import Station

MEASURE_AGAIN_S = 30.0
"""A measurement is reused for this long: each takes the kernel milliseconds, and idle zygotes change little."""


@dataclass(frozen=True)
class Held:
    """What the pool holds for one environment: its zygote and its parked workers, which end when it is let go.

    `memory` is that of all of them together. `num_workers` counts the workers that were taken and still live,
    `num_heirs` the hot zygotes forked from this one: while there is one, it cannot be let go. `start_s` is how long its
    zygote took to start, `used_at` when a worker was last taken, on the event loop's clock.
    """

    environment: Environment
    memory: memory.Memory
    num_workers: int
    num_heirs: int
    start_s: float
    used_at: float


class WarmPool:
    """Zygotes by environment, and `buffer` workers parked for each. Use it in one event loop, and close it there.

    A hot zygote is forked from one that has its imports, or nearly has (`policy.nearest`): so functions share one.
    """

    def __init__(self, *, buffer: int = 0, start_timeout_s: float = 120.0) -> None:
        self._buffer = buffer
        self._start_timeout_s = start_timeout_s
        self._stations: dict[Environment, Station] = {}
        self._lingering: dict[asyncio.Future[None], Station] = {}
        self._measured: dict[tuple[int, ...], tuple[float, memory.Memory]] = {}
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
            if station.base is None:
                raise
            return await self.warm(station.base.environment, buffer=buffer)

    async def take(self, environment: Environment, request: Request) -> Worker:
        """Return a worker that runs `request`: a parked one, else one forked, else, with a warning, one by exec.

        The first worker of an environment waits for its zygote. Raises WorkerStartError when not even exec works,
        ProtocolError when the request is too big, PoolClosed.
        """
        return await self._station(environment).take(request)

    def num_parked(self, environment: Environment) -> int:
        """Return how many workers wait for a request of this environment."""
        station = self._stations.get(environment)
        return 0 if station is None else len(station.parked)

    async def sizes(self) -> list[Held]:
        """Return what is held for each environment that has a zygote now: hot ones first, the longest unused first."""
        stations = [one for one in self._stations.values() if one.zygote is not None and one.zygote.alive]
        stations.sort(key=lambda station: (station.base is None, station.used_at))
        sizes = await self._measure([_processes(station) for station in stations])
        return [
            Held(
                environment=station.environment,
                memory=size,
                num_workers=station.num_workers,
                num_heirs=self._num_heirs(station),
                start_s=station.start_s,
                used_at=station.used_at,
            )
            for station, size in zip(stations, sizes, strict=True)
        ]

    async def let_go(self, environment: Environment, *, grace_s: float = 5.0) -> bool:
        """End an idle environment's zygote and what is parked, to have their memory. Returns whether they went.

        They come back when a worker is next taken, or the environment warmed. What is in use stays: an environment
        with a living worker that was taken, or with one on its way, and one of which hot zygotes are forked.
        """
        station = self._stations.get(environment)
        if station is None or self._num_heirs(station):
            return False
        return await station.let_go(grace_s)

    async def retire(self, environment: Environment, *, keep_workers: bool = False, grace_s: float = 5.0) -> None:
        """End everything of one environment, as `close` does.

        With `keep_workers` only what is parked ends now, and the rest when the last worker that was taken has ended.
        Retiring the last hot environment of a base retires the base as well.
        """
        station = self._stations.pop(environment, None)
        if station is None:
            return
        if station.base is not None and all(other.base is not station.base for other in self._stations.values()):
            await self.retire(station.base.environment, keep_workers=keep_workers, grace_s=grace_s)
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

    async def _measure(self, groups: list[tuple[int, ...]]) -> list[memory.Memory]:
        """Return the memory of each group of processes, measured now or a while ago."""
        now = asyncio.get_running_loop().time()
        known = {pids: found for pids, found in self._measured.items() if now - found[0] < MEASURE_AGAIN_S}
        unknown = [pids for pids in groups if pids not in known]
        for pids, found in zip(unknown, await asyncio.to_thread(_read_all, unknown), strict=True):
            known[pids] = now, found
        self._measured = {pids: known[pids] for pids in groups}
        return [known[pids][1] for pids in groups]

    def _num_heirs(self, station: Station) -> int:
        return sum(other.base is station and other.has_zygote for other in self._stations.values())

    def _station(self, environment: Environment) -> Station:
        if self._closed:
            raise PoolClosed("the pool has been closed and starts no worker")
        station = self._stations.get(environment)
        if station is None:
            base = self._base_of(environment) if environment.preload is not None else None
            station = Station(environment, self._buffer, self._start_timeout_s, base=base)
            self._stations[environment] = station
        return station

    def _base_of(self, environment: Environment) -> Station:
        """Return the station whose zygote a hot one is forked from: one that is there, where it comes near enough."""
        alike = [
            station
            for other, station in self._stations.items()
            if other.preload is None and replace(other, modules=environment.modules) == environment.base
        ]
        found = policy.nearest(set(environment.modules), [set(station.environment.modules) for station in alike])
        return self._station(environment.base) if found is None else alike[found]


def _processes(station: Station) -> tuple[int, ...]:
    assert station.zygote is not None
    return (station.zygote.pid, *(parked.worker.pid for parked in station.parked))


def _read_all(groups: list[tuple[int, ...]]) -> list[memory.Memory]:
    return [sum(map(memory.read, pids), memory.Memory()) for pids in groups]
