"""A process seen from the client: by pidfd, so that a number used again is never mistaken for it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import Literal

from warmpool.lifeline import Lifeline

STATUS_UNKNOWN = 255
"""The status of a worker whose zygote died before it: its end is seen, but only a parent is told how it ended."""

How = Literal["fork", "parked", "exec"]


class Process:
    """A living or ended process. Made and used in one event loop."""

    def __init__(self, pid: int, pidfd: int, lifeline: Lifeline) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._lifeline = lifeline
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._watched = False

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while the process lives."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for the end and return the exit status, negative for a signal. Any number may wait."""
        return await asyncio.shield(self._ended)

    def kill(self, sig: int = signal.SIGKILL) -> bool:
        """Send a signal; return whether the process was still there to get it."""
        if self._ended.done():
            return False
        try:
            signal.pidfd_send_signal(self._pidfd, sig)
        except ProcessLookupError:
            return False
        return True

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back, from the event loop, once the process has ended."""
        self._ended.add_done_callback(lambda _: callback())

    def watch(self, reap: Callable[[], int]) -> None:
        """See the end by the pidfd, and ask `reap` for the status then."""
        if self._ended.done() or self._watched:
            return
        self._watched = True
        self._loop.add_reader(self._pidfd, lambda: self.ended(reap()))

    def ended(self, status: int) -> None:
        """Settle the end; the first to know the status tells it."""
        if self._ended.done():
            return
        if self._watched:
            self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._lifeline.cut()  # what it leaves behind ends with it
        self._ended.set_result(status)


class Worker(Process):
    """A process that runs, or has run, one request."""

    def __init__(self, pid: int, pidfd: int, lifeline: Lifeline, started_at: float) -> None:
        super().__init__(pid, pidfd, lifeline)
        self.how: How = "fork"
        """How it came to be: forked on demand, forked ahead and parked, or started by exec because `why`."""
        self.why: str | None = None
        self.started_at = started_at
        """Monotonic instant at which the process began."""

    def orphaned(self) -> None:
        """Its zygote is gone: see the end by the pidfd from now on."""
        self.watch(lambda: _status_of_orphan(self._pidfd))


async def end_all(workers: list[Worker], *, grace_s: float) -> None:
    """End the workers: SIGTERM, and SIGKILL for those that live on after `grace_s`."""
    living = [worker for worker in workers if worker.kill(signal.SIGTERM)]
    if not living:
        return
    await asyncio.wait([asyncio.ensure_future(worker.wait()) for worker in living], timeout=grace_s)
    for worker in living:
        worker.kill(signal.SIGKILL)
    for worker in living:
        await worker.wait()


def _status_of_orphan(pidfd: int) -> int:
    """Reap a worker that came to this process when its zygote died (as process 1, or as a subreaper); else give up."""
    with contextlib.suppress(ChildProcessError):
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
        if ended is not None:
            return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    return STATUS_UNKNOWN
