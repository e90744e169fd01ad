"""The life of an instance's server: the port is open before the handler is, and closed after the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from faas.errors import StartFailed
from faas.runtime import Runtime
from faas.server import KEEP_ALIVE_S
from faas.server.app import build
from faas.server.listener import Listener
from faas.server.porter import Held
from faas.server.watchdog import Watchdog
from faas.signals import not_inherited, stop_signals

if TYPE_CHECKING:
    from faas.server.admin import Admin

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

_LAST_BYTES_S: Final = 1.0


class Stop:
    """The request to stop; a second one means at once. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.at_once = asyncio.Event()
        self.signal = 0

    def tell(self, signum: int = 0) -> None:
        """Ask to stop; `signum` is the signal that did."""
        if self.told.is_set():
            self.signal = signum
            self.at_once.set()
        self.told.set()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Have the signals that end a process call `tell`, where this is the main thread."""
        loop = asyncio.get_running_loop()
        signals = stop_signals() if threading.current_thread() is threading.main_thread() else ()
        for signum in signals:
            loop.add_signal_handler(signum, self.tell, signum)
        try:
            with not_inherited(signals):
                yield
        finally:
            for signum in signals:
                loop.remove_signal_handler(signum)


class Server:
    """Serves one instance over HTTP. Like its runtime it can be made ahead of need. `admin` is as `build` has it."""

    def __init__(self, runtime: Runtime, keep_alive_s: float = KEEP_ALIVE_S, *, admin: Admin | None = None) -> None:
        self.runtime = runtime
        self._listener = Listener(build(runtime, admin), keep_alive_s)

    async def serve(
        self,
        sockets: Sequence[socket.socket],
        *,
        held: Sequence[Held] = (),
        load: Callable[[], object],
        grace_s: float,
        lame_duck_s: float = 0.0,
        num_spared: int = 0,
        on_ready: Callable[[], None] | None = None,
        stop: Stop | None = None,
        exit_on_failure: bool = True,
    ) -> int:
        """Serve until told to stop, by a signal or `stop`; return the exit code.

        The sockets (TCP or Unix) are open at once and answer 503 until `load` and the warm-up are done and `on_ready`
        has been called; `held` are requests that came before, and
        `num_spared` of the example inputs need not run. When told to stop, readiness goes at once and answers
        close their connections; calls are still taken for `lame_duck_s`, then refused while those in flight are
        finished; what is open after `grace_s` ends with an error. A start that failed ends it, or with
        `exit_on_failure` off stays to be read at /readyz until it is told to stop. 0: stopped as told; 1: the start
        failed; 128 + n: signal n came as the second one, which ends everything at once.
        """
        stop = stop if stop is not None else Stop()
        with stop.on_signals(), _watched(self.runtime):
            await self._listener.open(sockets)
            for connection, received in held:
                await self._listener.adopt(connection, received)
            try:
                started = await _unless(stop.told, self._start(load, num_spared, on_ready))
                if started is False and exit_on_failure:
                    await self.runtime.close()
                    return 1
                await stop.told.wait()
                await _unless(stop.at_once, self._end(grace_s, lame_duck_s))
            finally:
                await self._listener.close(0.0)
        return 128 + stop.signal if stop.at_once.is_set() else 0

    async def _start(self, load: Callable[[], object], num_spared: int, on_ready: Callable[[], None] | None) -> bool:
        try:
            await self.runtime.start(load, num_spared=num_spared)
        except StartFailed as error:
            logger.error("%s", error, exc_info=error.__cause__)
            return False
        if on_ready is not None:
            on_ready()
        return True

    async def _end(self, grace_s: float, lame_duck_s: float) -> None:
        clock, listener = self.runtime.clock, self._listener
        if self.runtime.metrics.num_inflight or self.runtime.thread.is_busy:
            logger.info("what is in flight is finished first, within %g s; told again, it ends at once", grace_s)
        self.runtime.leave_rotation()
        listener.close_after_answers()
        await asyncio.sleep(lame_duck_s)
        ends_at = clock() + grace_s
        await self.runtime.drain(grace_s)
        await listener.quiet(max(ends_at - clock(), _LAST_BYTES_S))
        await listener.close(_LAST_BYTES_S)
        await self.runtime.close()


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Do `work`, but give it up when `event` comes first. Returns what it returned, None if it was given up."""
    task, waiter = asyncio.create_task(work), asyncio.create_task(event.wait())
    try:
        await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        waiter.cancel()
        await asyncio.gather(task, waiter, return_exceptions=True)


@contextlib.contextmanager
def _watched(runtime: Runtime) -> Iterator[None]:
    """Watch the loop where handlers run on it; nothing else of ours blocks it."""
    if not any(each.signature.kind.startswith("async") for e in runtime.function.endpoints for each in e.each):
        yield
        return

    def lag(seconds: float) -> None:
        runtime.metrics.loop_lag_s = seconds

    watchdog = Watchdog(lag)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.close()
