"""One environment in the pool: its zygote, which is replaced when it dies, and its parked workers."""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from warmpool import launch, policy
from warmpool.client import Zygote
from warmpool.environment import Environment
from warmpool.errors import PoolClosed, WarmpoolError, ZygoteDied, ZygoteError, ZygoteStartError
from warmpool.parked import Parked
from warmpool.process import Worker, end_all
from warmpool.protocol import Request

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class Station:
    """Starts its zygote when first asked, or warmed. Everything runs in the event loop it was made in."""

    def __init__(
        self, environment: Environment, buffer: int, start_timeout_s: float, *, base: "Station | None" = None
    ) -> None:
        self.environment = environment
        self.base = base
        """The station of the zygote that a hot one is forked from."""
        self.start_s = 0.0
        """How long the zygote took to start."""
        self.zygote: Zygote | None = None
        self.parked: deque[Parked] = deque()
        self._buffer = buffer
        self._start_timeout_s = start_timeout_s
        self._loop = asyncio.get_running_loop()
        self.used_at = self._loop.time()
        """When a worker was last taken, on the event loop's clock."""
        self._starting: asyncio.Task[Zygote] | None = None
        self._backoff = policy.Backoff()  # of zygotes
        self._parking = policy.Backoff()  # of parked workers that die before they are needed
        self._last_failure = ""
        self._filling: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._workers: set[Worker] = set()
        self._is_retired = False
        self._is_closed = False

    def set_buffer(self, buffer: int) -> None:
        """Keep that many workers parked from now on; what is parked beyond it stays until it is taken."""
        self._buffer = buffer
        self._refill()

    async def take(self, request: Request) -> Worker:
        """Return a worker that runs `request`: parked, else forked, else by exec."""
        self.used_at = self._loop.time()
        return await self._outcome(self._spawn(self._take(request)))

    async def warm(self) -> Zygote:
        """Return the zygote once the buffer is filled, or cannot be filled. Raises as `ready_zygote` does."""
        zygote = await self.ready_zygote()
        if self._filling is not None:
            await self._outcome(asyncio.shield(self._filling))
        await asyncio.gather(*(parked.settled() for parked in self.parked))
        return zygote

    @property
    def num_workers(self) -> int:
        """How many workers that were taken live."""
        return len(self._workers)

    @property
    def has_zygote(self) -> bool:
        """Whether its zygote is there or about to be."""
        return self._starting is not None or (self.zygote is not None and self.zygote.alive)

    async def let_go(self, grace_s: float) -> bool:
        """End the zygote and what is parked, until somebody asks again. Returns whether they went.

        They stay while a worker that was taken lives, since the zygote is the one that is told how it ends, and while
        one is on its way.
        """
        if self._workers or self._tasks or self.zygote is None or not self.zygote.alive:
            return False
        zygote, self.zygote = self.zygote, None
        await self._end_parked()
        await zygote.stop(grace_s=grace_s)
        return True

    async def ready_zygote(self) -> Zygote:
        """Return the zygote, started if need be. Raises ZygoteStartError when it fails or is backing off."""
        if self.zygote is not None and self.zygote.alive:
            return self.zygote
        if self._starting is None:
            wait_s = self._backoff.wait_s(self._loop.time())
            if wait_s > 0:
                raise ZygoteStartError(
                    f"the zygote failed {self._backoff.num_failures} times in a row and is tried again in "
                    f"{wait_s:.1f} s: {self._last_failure}"
                )
            self._starting = self._spawn(self._start())
        return await self._outcome(asyncio.shield(self._starting))

    async def linger(self) -> None:
        """Start nothing any more, and end as `close` does once the last worker that was taken has ended by itself.

        Until then the zygote stays, because it is the one that is told how its workers end.
        """
        self._is_retired = True
        await self._end_parked()
        while self._tasks or self._workers:
            await asyncio.gather(*self._tasks, *(worker.wait() for worker in self._workers), return_exceptions=True)
        await self.close(grace_s=0)

    async def close(self, grace_s: float) -> None:
        """End the zygote, the parked workers and every worker that was taken and still lives."""
        self._is_retired = self._is_closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._end_parked()
        await end_all(list(self._workers), grace_s=grace_s)
        if self.zygote is not None:
            await self.zygote.stop(grace_s=grace_s)

    async def _end_parked(self) -> None:
        workers = [parked.worker for parked in self.parked]
        self.parked.clear()
        for worker in workers:
            worker.kill()  # it has nothing to clean up yet
        for worker in workers:
            await worker.wait()

    async def _take(self, request: Request) -> Worker:
        worker = await self._adopted(request) or await self._forked(request)
        self._workers.add(worker)
        worker.on_end(lambda: self._workers.discard(worker))
        return worker

    async def _adopted(self, request: Request) -> Worker | None:
        while self.parked:
            parked = self.parked.popleft()
            try:
                worker = await parked.adopt(request)
            except BrokenPipeError:  # it has died, and its end was not seen yet
                self._parked_failed(parked)
                continue
            finally:
                self._refill()
            self._parking = policy.Backoff()
            return worker
        return None

    async def _forked(self, request: Request) -> Worker:
        for is_last in (False, True):
            try:
                return await (await self.ready_zygote()).fork(request)
            except ZygoteStartError as failure:
                if self.base is not None:
                    return await self.base.take(request)
                why = str(failure)
                break
            except ZygoteDied as death:
                why = str(death)
                if not is_last:
                    _log.warning("%s; its successor is asked", death)
        return await launch.exec_worker(self.environment, request, why)

    async def _start(self, after_s: float = 0.0) -> Zygote:
        await asyncio.sleep(after_s)
        started_at = self._loop.time()
        try:
            zygote = await self._new_zygote()
        except ZygoteError as failure:
            self._starting = None
            self._failed(str(failure), served=False)
            raise
        self._starting = None
        self.zygote = zygote
        for module, reason in zygote.failed.items():
            _log.warning("zygote %d could not import %s: %s", zygote.pid, module, reason)
        if zygote.hazard is not None:
            _log.warning("zygote %d will not fork: %s", zygote.pid, zygote.hazard)
        ready_at = self._loop.time()
        self.start_s = ready_at - started_at
        earliest_next = ready_at + self.start_s  # at most half of the time goes into starting
        zygote.process.on_end(lambda: self._zygote_ended(zygote, ready_at, earliest_next))
        self._refill()
        return zygote

    async def _new_zygote(self) -> Zygote:
        if self.base is None:
            return await Zygote.start(self.environment, timeout_s=self._start_timeout_s)
        base = await self.base.ready_zygote()
        return await Zygote.heir(base, self.environment, timeout_s=self._start_timeout_s)

    def _zygote_ended(self, zygote: Zygote, ready_at: float, earliest_next: float) -> None:
        if not self._is_retired and self.zygote is zygote:
            reason = f"zygote {zygote.pid} ended with status {zygote.process.status}"
            served = zygote.num_forked > 0 or self._loop.time() - ready_at >= policy.SOUND_AFTER_S
            self._failed(reason, served=served, not_before=earliest_next)

    def _failed(self, reason: str, *, served: bool, not_before: float = 0.0) -> None:
        now = self._loop.time()
        self._last_failure = reason
        most_s = policy.MAX_DELAY_S if self.base is None else policy.MAX_DELAY_OF_HOT_S
        self._backoff = self._backoff.after(served=served, now=now, not_before=not_before, most_s=most_s)
        wait_s = self._backoff.wait_s(now)
        _log.warning("%s; a new one is started in %.1f s", reason, wait_s)
        if self._backoff.num_failures == 0:
            self._restart(wait_s)  # who asks meanwhile waits for it
        else:
            self._loop.call_later(wait_s, self._restart)  # who asks meanwhile is told

    def _restart(self, after_s: float = 0.0) -> None:
        alive = self.zygote is not None and self.zygote.alive
        if not (alive or self._starting or self._is_retired):
            self._starting = self._spawn(self._start(after_s))

    def _refill(self) -> None:
        if self._filling is None and not self._is_retired:
            self._filling = self._spawn(self._fill())

    async def _fill(self) -> None:
        try:
            while (
                policy.num_to_park(len(self.parked), self._buffer) > 0
                and self.zygote is not None
                and self._parking.wait_s(self._loop.time()) == 0
            ):
                parked = await self.zygote.park()
                self.parked.append(parked)
                parked.worker.on_end(partial(self._parked_ended, parked))
        except (WarmpoolError, OSError) as reason:
            _log.warning("no worker is parked: %s", reason)
        finally:
            self._filling = None

    def _parked_ended(self, parked: Parked) -> None:
        if parked in self.parked:
            self.parked.remove(parked)
            self._parked_failed(parked)

    def _parked_failed(self, parked: Parked) -> None:
        now = self._loop.time()
        self._parking = self._parking.after(served=False, now=now)
        _log.warning("parked worker %d ended before it was needed", parked.worker.pid)
        self._loop.call_later(self._parking.wait_s(now), self._refill)

    async def _outcome(self, work: asyncio.Future[_T]) -> _T:
        """Wait for work that `close` cancels, and say so when it did; a caller that was cancelled itself stays so."""
        task = asyncio.current_task()
        try:
            return await work
        except asyncio.CancelledError:
            if self._is_closed and task is not None and not task.cancelling():
                raise PoolClosed("the pool was closed before the worker had started") from None
            raise

    def _spawn(self, coroutine: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # who awaits it gets it as well
        return task
