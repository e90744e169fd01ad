"""A zygote seen from asyncio: start it, fork from it, stop it."""

import asyncio
import itertools
import os
import signal
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Self

from warmpool import launch, protocol
from warmpool.channel import Channel
from warmpool.environment import Environment
from warmpool.errors import ForkRefused, WorkerStartError, ZygoteDied, ZygoteStartError
from warmpool.lifeline import Lifeline
from warmpool.parked import Parked
from warmpool.process import Process, Worker, end_all
from warmpool.protocol import Request

ANSWER_TIMEOUT_S = 10.0
"""A zygote, or the worker that it forked, that has not answered for this long is stuck: a fork takes milliseconds."""

_ONE_THREAD_EACH = 2**20  # so many workers share the processors that each gets one thread


@dataclass(frozen=True)
class _Pending:
    answer: asyncio.Future[Worker]
    lifeline: Lifeline


class Zygote:
    """One running zygote. Made by `start`, used in the event loop it was started in."""

    def __init__(self, environment: Environment, process: Process, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self.environment = environment
        self.failed: dict[str, str] = {}
        """Modules that could not be imported, each with the reason."""
        self.hazard: str | None = None
        """Why this zygote will refuse every fork, when its imports made it unfit."""
        self.import_s = 0.0
        self.num_forked = 0
        self.process = process
        self._ready: asyncio.Future[protocol.Ready] = self._loop.create_future()
        self._pending: dict[int, _Pending] = {}
        self._workers: dict[int, Worker] = {}
        self._disowned: set[Worker] = set()
        self._death = f"zygote {self.pid} died before it answered"
        self._watchdog: asyncio.TimerHandle | None = None
        self._watched: int | None = None  # the fork that the watchdog waits for
        self._ids = itertools.count()
        self._channel = Channel(sock, self._received, self._hung_up)
        process.on_end(self._channel.drain)

    @classmethod
    async def start(cls, environment: Environment, *, timeout_s: float = 120.0) -> Self:
        """Start a zygote and wait until its imports are done.

        Raises ZygoteStartError when it cannot be started, ends, or is not ready within `timeout_s`. A module that
        cannot be imported is no error: `failed` tells.
        """
        process, sock = launch.start_zygote(environment)
        zygote = cls(environment, process, sock)
        await zygote._become_ready(zygote._prepare(), timeout_s)
        return zygote

    @classmethod
    async def heir(cls, base: "Zygote", environment: Environment, *, timeout_s: float = 120.0) -> Self:
        """Fork a hot zygote from `base`, and wait until the environment's preload is done.

        What the environment has and `base` has not is imported in the new one.

        Raises ZygoteStartError when it cannot be forked, its preload fails or makes it unfit, it ends, or it is not
        ready within `timeout_s`; ZygoteDied when `base` ends meanwhile.
        """
        preload = environment.preload
        assert preload is not None
        remembered = launch.remembered(environment)
        there = set(base.environment.modules)
        missing = tuple(module for module in environment.modules if module not in there)
        message = protocol.Inherit(modules=missing, entry=preload.entry, payload=preload.payload, remembered=remembered)
        ours, theirs = protocol.socketpair()
        with theirs:
            request = Request(
                entry=protocol.INHERIT_ENTRY,
                payload=protocol.encode_inherit(message),
                fds={"zygote": theirs.fileno()},
                num_workers=_ONE_THREAD_EACH,
            )
            try:
                process = await base._forked(request)
            except ForkRefused as refusal:
                ours.close()
                raise ZygoteStartError(f"no hot zygote: {refusal}") from None
            except BaseException:
                ours.close()
                raise
        zygote = cls(environment, process, ours)
        await zygote._become_ready(zygote._told_ready(), timeout_s)
        if zygote.hazard is not None:
            await zygote.stop(grace_s=0)
            raise ZygoteStartError(f"no hot zygote: {zygote.hazard}")
        return zygote

    @property
    def pid(self) -> int:
        """The zygote's own process."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it still takes requests."""
        return self._channel.is_open

    async def fork(self, request: Request) -> Worker:
        """Start a worker that runs `request`: forked, or by exec with a warning when a fork would not be safe.

        Raises ZygoteDied when the zygote ends or does not answer, ProtocolError when the request is too big,
        WorkerStartError when exec was needed and failed.
        """
        try:
            return await self._forked(request)
        except ForkRefused as refusal:
            return await launch.exec_worker(self.environment, request, why=str(refusal))

    async def park(self) -> Parked:
        """Fork a worker ahead of need. Raises ZygoteDied, ForkRefused (one parked by exec would save little)."""
        ahead = self.environment.park
        park = None if ahead is None else protocol.Park(ahead.entry, ahead.payload)
        ours, theirs = protocol.socketpair()
        with theirs:
            try:
                fork = protocol.Fork(id=next(self._ids), request=None, park=park)
                return Parked(await self._ask(fork, [theirs.fileno()]), ours, settles=park is not None)
            except BaseException:
                ours.close()
                raise

    async def stop(self, *, stop_workers: bool = False, grace_s: float = 5.0) -> None:
        """End the zygote, by hanging up, then by force after `grace_s`. Its workers live on, unless `stop_workers`.

        The exit status of a worker that outlives its zygote is not known (`process.STATUS_UNKNOWN`).
        """
        workers = list(self._workers.values())
        if stop_workers:
            await end_all(workers, grace_s=grace_s)
        if self._pending:
            await asyncio.wait([pending.answer for pending in self._pending.values()], timeout=grace_s)
        self._channel.close()
        try:
            async with asyncio.timeout(grace_s):
                await self.process.wait()
        except TimeoutError:
            pass
        finally:
            self.process.kill()
        await self.process.wait()
        for worker in list(self._disowned):
            await worker.wait()

    async def _forked(self, request: Request) -> Worker:
        async with launch.packed(request) as packed:
            fork = protocol.Fork(id=next(self._ids), request=packed.request, payload_in_memfd=packed.in_memfd)
            return await self._ask(fork, packed.fds)

    async def _become_ready(self, becoming: Coroutine[Any, Any, None], timeout_s: float) -> None:
        """Wait for `becoming`; when it fails or takes too long, end the zygote."""
        try:
            async with asyncio.timeout(timeout_s):
                await becoming
        except TimeoutError:
            await self.stop(grace_s=0)
            raise ZygoteStartError(
                f"a zygote that imports {list(self.environment.modules)} was not ready after {timeout_s} s: "
                "look at its stderr, or give it more time"
            ) from None
        except BaseException:
            await self.stop(grace_s=0)
            raise

    async def _prepare(self) -> None:
        environment = self.environment
        modules = protocol.to_memfd("\n".join(environment.modules).encode())
        try:
            prepare = protocol.Prepare(sys_path=environment.sys_path, remembered=launch.remembered(environment))
            await self._channel.send(prepare, [modules])
        except BrokenPipeError:
            pass  # it has died, and `_ready` says so
        finally:
            os.close(modules)
        await self._told_ready()

    async def _told_ready(self) -> None:
        ready = await self._ready
        self.failed, self.hazard, self.import_s = ready.failed, ready.hazard, ready.import_s

    async def _ask(self, fork: protocol.Fork, fds: Sequence[int]) -> Worker:
        """Have the zygote fork. Raises ForkRefused, ZygoteDied, ProtocolError; OSError when no descriptor is left."""
        pending = self._pending[fork.id] = _Pending(self._loop.create_future(), Lifeline.create())
        try:
            await self._channel.send(fork, [pending.lifeline.given, *fds])
        except BaseException as error:
            if self._pending.pop(fork.id, None) is not None:
                pending.lifeline.cut()
            if isinstance(error, BrokenPipeError):
                raise ZygoteDied(f"zygote {self.pid} is gone: {error}") from error
            raise
        self._watch_oldest()
        try:
            return await asyncio.shield(pending.answer)
        except asyncio.CancelledError:
            pending.answer.add_done_callback(self._disown)
            raise

    def _watch_oldest(self) -> None:
        """Give the oldest pending answer `ANSWER_TIMEOUT_S`, counted from when it became the oldest.

        The zygote forks in order, but the workers answer: one that hangs must not be waited for as long as later ones
        keep answering.
        """
        oldest = next(iter(self._pending), None)
        if oldest == self._watched:
            return
        self._watched = oldest
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._watchdog = None if oldest is None else self._loop.call_later(ANSWER_TIMEOUT_S, self._stuck)

    def _stuck(self) -> None:
        self._death = f"zygote {self.pid} did not answer in {ANSWER_TIMEOUT_S} s and was killed"
        self.process.kill()

    def _received(self, message: protocol.ToClient, fds: list[int]) -> None:
        match message:
            case protocol.Ready():
                self._ready.set_result(message)
            case protocol.Forked(id=id_, pid=pid, started_at=started_at):
                self.num_forked += 1
                pending = self._pending.pop(id_)
                if fds:
                    worker = self._workers[id_] = Worker(pid, fds[0], pending.lifeline, started_at)
                    pending.answer.set_result(worker)
                else:
                    pending.lifeline.cut()
                    pending.answer.set_exception(
                        WorkerStartError(f"no descriptor is left for worker {pid}: raise the limit (ulimit -n)")
                    )
            case protocol.Refused(id=id_, why=why):
                self._refused(id_, why)
            case protocol.Exited(id=id_, status=status):
                if id_ in self._pending:
                    self._refused(id_, f"the worker ended with status {status} before it ran anything")
                elif id_ in self._workers:
                    self._workers.pop(id_).ended(status)
        self._watch_oldest()

    def _refused(self, id_: int, why: str) -> None:
        pending = self._pending.pop(id_)
        pending.lifeline.cut()
        pending.answer.set_exception(ForkRefused(why))

    def _hung_up(self) -> None:
        """The zygote takes nothing more: what it owed is settled, and its workers are watched by their pidfds."""
        self.process.kill(signal.SIGTERM)  # whatever closed the socket, it can serve nobody any more
        self.process.on_end(self._never_ready)
        for pending in self._pending.values():
            pending.lifeline.cut()  # a worker of which we were not told dies with it
            pending.answer.set_exception(ZygoteDied(self._death))
        self._pending.clear()
        self._watch_oldest()
        for worker in self._workers.values():
            worker.orphaned()
        self._workers.clear()

    def _disown(self, answer: asyncio.Future[Worker]) -> None:
        """End a worker that comes after its caller has left."""
        if answer.exception() is None:
            worker = answer.result()
            worker.kill()
            self._disowned.add(worker)
            worker.on_end(lambda: self._disowned.discard(worker))

    def _never_ready(self) -> None:
        if not self._ready.done():
            modules = list(self.environment.modules)
            self._ready.set_exception(
                ZygoteStartError(
                    f"zygote {self.pid} ended with status {self.process.status} while it imported {modules}: "
                    "its stderr may say more"
                )
            )
            self._ready.exception()  # `start` may have been cancelled, and then nobody asks
