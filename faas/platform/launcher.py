"""How instances live: each process is given its sockets, heard, held to its limits, and seen to its end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import signal
import socket
from pathlib import Path

import msgspec

from faas import instance_messages as process
from faas import settings
from faas.clock import Clock, monotonic
from faas.platform import forking, logs
from faas.platform.guard import Guard
from faas.platform.instances import Instance, OnChange, State
from faas.platform.limits import Life
from faas.preparation import Preparation
from warmpool import cpu
from warmpool.errors import WarmpoolError
from warmpool.pool import WarmPool
from warmpool.protocol import Request

BACKLOG = 1024
MAX_EVENT_BYTES = 2**26
"""Of what an instance tells at once: the names of thousands of modules, or an error that quotes all it was given."""
KILL_AFTER_S = 2.0
"""How long an instance may take beyond its grace period before it is killed."""


class Launcher:
    """Starts and ends instances, and tells of every change of their state through the callback given with each."""

    def __init__(self, pool: WarmPool, sockets: Path, *, platform_socket: Path, clock: Clock = monotonic) -> None:
        self._pool = pool
        self._sockets = sockets
        self._platform_socket = platform_socket
        self._clock = clock
        self._guard = Guard(clock)
        self._num_cpus = cpu.read_threads_per_worker(cpu.find_quota_files(), 1)
        self._ids = itertools.count(1)

    def launch(
        self, preparation: Preparation, log: logs.LogFile, changed: OnChange, *, num_spared: int = 0
    ) -> Instance:
        """Order an instance. It is `STARTING` at once; what becomes of it is told through `changed`.

        num_spared: of the example inputs, from the first on, need not run
        """
        number = next(self._ids)
        made = Instance(
            id=f"{preparation.name}-{number:x}{secrets.token_hex(2)}",
            function=preparation.name,
            revision=preparation.revision,
            address=str(self._sockets / f"{number:x}"),
            ordered_at=self._clock(),
            num_spared=num_spared,
        )
        _keep(asyncio.ensure_future(self._live(made, preparation, log, changed)))
        return made

    async def stop(self, made: Instance, grace_s: float) -> None:
        """Drain an instance and wait for its end; it is killed when it takes longer than its grace period."""
        if made.state is State.STOPPED:
            return
        made.state = State.DRAINING
        _let_go(made)
        try:
            async with asyncio.timeout(grace_s + KILL_AFTER_S):
                await made.ended.wait()
        except TimeoutError:
            if made.worker is not None:
                made.worker.kill(signal.SIGKILL)
            await made.ended.wait()

    async def follow(self, made: Instance) -> process.Followed | None:
        """Have an instance look at its versions now, and do what follows; returns what it says then.

        None: it ends, and takes no new calls.
        """
        number = next(self._ids)
        future: asyncio.Future[process.Followed | None] = asyncio.get_running_loop().create_future()
        made.following[number] = future
        try:
            if not made.serves:
                return None
            _say(made, msgspec.json.encode(process.Follow(number)) + b"\n")
            return await future
        finally:
            del made.following[number]

    async def _live(self, made: Instance, preparation: Preparation, log: logs.LogFile, changed: OnChange) -> None:
        """Run an instance from its order to its end."""
        output: asyncio.BaseTransport | None = None
        try:
            ours, theirs = socket.socketpair()
            with contextlib.ExitStack() as ours_until_used, theirs, _listening(made.address) as listen:
                ours_until_used.enter_context(ours)
                output, writer = await logs.capture(log, made.id)
                try:
                    request = self._request(made, preparation)
                    fds = {"listen": listen.fileno(), "control": theirs.fileno(), "stdout": writer, "stderr": writer}
                    request = msgspec.structs.replace(request, fds=fds)
                    made.worker = await self._pool.take(forking.environment(preparation), request)
                finally:
                    os.close(writer)
                ours_until_used.pop_all()
            made.how = made.worker.how
            description = preparation.description
            held = _Held(made, log, changed)
            with self._guard.guarding(
                made.worker.pid, held, memory_bytes=description.memory_bytes, cpu=description.cpu
            ):
                await self._listen(made, ours, changed)
                made.status = await made.worker.wait()
        except (OSError, WarmpoolError) as error:
            made.failure = f"cannot be started: {error}"
        finally:
            if made.worker is not None and made.worker.status is None:
                made.worker.kill(signal.SIGKILL)
            if output is not None and made.worker is None:
                output.close()
            with contextlib.suppress(OSError):
                os.unlink(made.address)
            made.state = State.STOPPED
            made.ended.set()
            for future in made.following.values():
                if not future.done():
                    future.set_result(None)
            changed(made)

    async def _listen(self, made: Instance, control: socket.socket, changed: OnChange) -> None:
        """Read the instance's events until it closes its end of the socket, at its exit at the latest."""
        reader, made.control = await asyncio.open_connection(sock=control, limit=MAX_EVENT_BYTES)
        for message in made.unsaid:
            made.control.write(message)
        if made.state is State.DRAINING:  # stopped before there was a process
            _let_go(made)
        try:
            with contextlib.suppress(ConnectionError):
                async for line in reader:
                    self._hear(made, process.EVENTS.decode(line), changed)
        finally:
            made.control.close()

    def _hear(self, made: Instance, event: process.Event, changed: OnChange) -> None:
        match event:
            case process.Ready(phases=phases):
                made.phases = phases
                made.ready_at = self._clock()
                if made.state is State.STARTING:
                    made.state = State.READY
            case process.Failed(reason=reason):
                made.failure = reason
            case process.Leaving():
                made.state = State.DRAINING
            case process.Imported(modules=late):
                made.imported = late
            case process.Followed(number=number):
                future = made.following.get(number)
                if future is not None and not future.done():
                    future.set_result(event)
                return
        changed(made)

    def _request(self, made: Instance, preparation: Preparation) -> Request:
        description = preparation.description
        order = process.Order(
            revision=forking.revision_of(preparation),
            instance_id=made.id,
            ordered_at=made.ordered_at,
            num_spared=made.num_spared,
            grace_s=description.grace_period_s,
        )
        return Request(
            entry="faas.instance:main",
            payload=msgspec.json.encode(order),
            env={**description.env, settings.PLATFORM_SOCKET: str(self._platform_socket), settings.LAME_DUCK: None},
            num_workers=max(1, int(self._num_cpus / description.cpu)),
        )


class _Held:
    """An instance as it is held to its limits."""

    def __init__(self, made: Instance, log: logs.LogFile, changed: OnChange) -> None:
        self._made = made
        self._log = log
        self._changed = changed

    def life(self, now: float) -> Life | None:
        """See `Guarded`."""
        made = self._made
        return None if made.ready_at is None else Life(made.ready_at - made.ordered_at, now - made.ready_at)

    def end(self, why: str) -> None:
        """See `Guarded`. Its callers are told why, so that is known before it ends."""
        made = self._made
        made.failure = why
        self._changed(made)
        if made.worker is not None:
            made.worker.kill(signal.SIGKILL)

    def renew(self, why: str) -> None:
        """See `Guarded`."""
        if self._made.state is State.READY:
            self._log.write(self._made.id, f"faas: {why}")
            self._made.state = State.DRAINING
            self._changed(self._made)


def _say(made: Instance, message: bytes) -> None:
    """Tell an instance something, at the latest when there is a process."""
    if made.control is None:
        made.unsaid.append(message)
    elif not made.control.is_closing():
        made.control.write(message)


def _let_go(made: Instance) -> None:
    """Tell an instance to end, by closing our direction of its control socket."""
    if made.control is not None and not made.control.is_closing():
        made.control.write_eof()


def _listening(address: str) -> socket.socket:
    os.makedirs(os.path.dirname(address), 0o700, exist_ok=True)  # it may have been tidied away
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


_tasks: set[asyncio.Future[None]] = set()


def _keep(task: asyncio.Future[None]) -> None:
    """Hold a task until it is done: the event loop alone would let it be collected."""
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
