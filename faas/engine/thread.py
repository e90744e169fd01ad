"""The model thread of an instance, and the right to it."""

from __future__ import annotations

import asyncio
import contextvars
import math
import sys
import threading
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from faas.clock import Clock, monotonic
from faas.engine import edf
from faas.engine.hop import promised

_T = TypeVar("_T")
Turn = Callable[[float], float]
"""Says, of one who asked at the moment given, by which moment its turn should come. Asked whenever one is free."""

_Request = tuple[Callable[[], None], Turn | None, float]


class Right(Protocol):
    """The right to run one batch at a time. Belongs to the event loop's thread."""

    @property
    def held(self) -> bool:
        """Whether somebody has it."""
        ...

    def request(self, granted: Callable[[], None], turn: Turn | None = None) -> None:
        """Call `granted()` once the right is the caller's: at once if it is free. Neither that nor `turn` may raise."""
        ...

    def take(self) -> bool:
        """Take the right if it is free. Returns whether it was."""
        ...

    def withdraw(self, granted: Callable[[], None]) -> bool:
        """Ask no longer. False if the request was not waiting."""
        ...

    def release(self) -> None:
        """Give the right up; whose turn should come first gets it."""
        ...


class Lease:
    """See `Right`: of a place that several engines share, or one.

    Who should have had it first gets it. An engine without a promise has no moment of its own: it counts as one whose
    turn should come `edf.PATIENCE_S` after it asked. Among such engines it is first come, first served; who runs one
    batch and asks again stands behind the others, so they take turns.
    """

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._held = False
        self._waiting: list[_Request] = []

    @property
    def held(self) -> bool:
        """See `Right`."""
        return self._held

    def request(self, granted: Callable[[], None], turn: Turn | None = None) -> None:
        """See `Right`."""
        if self._held:
            self._waiting.append((granted, turn, self._clock()))
        else:
            self._held = True
            granted()

    def take(self) -> bool:
        """See `Right`."""
        was_free = not self._held
        self._held = True
        return was_free

    def withdraw(self, granted: Callable[[], None]) -> bool:
        """See `Right`."""
        found = [request for request in self._waiting if request[0] is granted]
        for request in found:
            self._waiting.remove(request)
        return bool(found)

    def release(self) -> None:
        """See `Right`."""
        waiting = self._waiting
        if not waiting:
            self._held = False
        elif len(waiting) == 1:
            waiting.pop()[0]()
        else:
            first = min(waiting, key=_moment)
            waiting.remove(first)
            first[0]()


def _moment(request: _Request) -> float:
    _, turn, asked_at = request
    return edf.turn(None, asked_at) if turn is None else turn(asked_at)


class ModelThread:
    """One long-lived daemon thread on which every plain handler of an instance runs, `setup()` too.

    It starts with its first job. Threads of a pool would each cost the caches that torch and others keep by thread.
    It begins with the context variables that there are when this is made, and what `run` sets of them stays. Another of
    its team, made to be `like` it, begins with those that `run` has left.
    """

    def __init__(self, name: str = "model", like: ModelThread | None = None) -> None:
        self.name = name
        self._like = like
        self._context = contextvars.copy_context()
        self.lease = Lease()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._patience_s = math.inf
        self._on_stuck: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._others: list[ModelThread] = []

    def team(self, num: int) -> list[ModelThread]:
        """Return this thread and others, `num` in all, for as many batches at once; watched and closed with it."""
        while len(self._others) + 1 < num:
            other = ModelThread(f"{self.name} {len(self._others) + 2}", like=self)
            if self._on_stuck is not None:
                other.watch(self._patience_s, self._on_stuck)
            self._others.append(other)
        return [self, *self._others[: num - 1]]

    def is_own(self, identifier: int) -> bool:
        """Tell whether a thread of the process is this one, or another of its team."""
        own = self._thread is not None and self._thread.ident == identifier
        return own or any(other.is_own(identifier) for other in self._others)

    @property
    def is_busy(self) -> bool:
        """Whether a batch runs, or something else that holds the lease, on it or on another of its team."""
        return self.lease.held or any(other.is_busy for other in self._others)

    def watch(self, patience_s: float, on_stuck: Callable[[], None]) -> None:
        """Call back when a batch that nobody waits for any more has run for `patience_s`; once for each thread."""
        self._patience_s, self._on_stuck = patience_s, on_stuck
        for other in self._others:
            other.watch(patience_s, on_stuck)

    @property
    def is_watched(self) -> bool:
        """Whether somebody would be told."""
        return self._on_stuck is not None

    def forgone(self, ran_s: float) -> None:
        """Nobody waits any more for the batch that runs, and has run for `ran_s`."""
        if self._timer is None and self._on_stuck is not None:
            delay_s = max(0.0, self._patience_s - ran_s)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._stuck)

    def ended(self) -> None:
        """The batch has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stuck(self) -> None:
        on_stuck, self._on_stuck = self._on_stuck, None
        if on_stuck is not None:
            on_stuck()

    def post(self, job: Callable[[], None]) -> None:
        """Run `job` after those posted before. It must not raise, and its poster must hold the lease.

        Raises:
            RuntimeError: the thread was closed.
        """
        if self._closed:
            raise RuntimeError(f"the thread {self.name!r} was closed; nothing can run on it any more")
        if self._thread is None:
            context = (self._like or self)._context.copy()
            self._thread = threading.Thread(target=context.run, args=(self._work,), name=self.name, daemon=True)
            self._thread.start()
        self._jobs.put(job)

    async def run(self, function: Callable[..., _T], *args: Any) -> _T:
        """Run `function(*args)` on the thread when its turn comes, and return its value.

        Raises:
            BaseException: what the function raised.
        """

        def ran() -> _T:
            try:
                return function(*args)
            finally:
                self._context = contextvars.copy_context()

        job, future = promised(ran, ended=self.lease.release)

        def granted() -> None:
            if future.cancelled():
                self.lease.release()
                return
            try:
                self.post(job)
            except RuntimeError as error:
                self.lease.release()
                future.set_exception(error)

        self.lease.request(granted)
        return await future

    def stack(self) -> str:
        """Return what the threads are doing at this moment, as a traceback's text; empty when they never started."""
        frame = sys._current_frames().get(self._thread.ident or 0) if self._thread is not None else None
        own = "".join(traceback.format_stack(frame)) if frame is not None else ""
        return own + "".join(other.stack() for other in self._others)

    async def close(self, wait_s: float = 1.0) -> bool:
        """Wait for the thread to end after its jobs, for `wait_s` at most.

        Returns False if it, or another of its team, is still busy; that one is then left behind, and ends with the
        process.
        """
        self._closed = True
        all_ended = True
        if self._thread is not None and self._thread.is_alive():
            self._jobs.put(None)
            all_ended = await asyncio.to_thread(_join, self._thread, wait_s)
        for other in self._others:
            all_ended &= await other.close(wait_s)
        return all_ended

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # nothing of the last batch outlives it here


def _join(thread: threading.Thread, wait_s: float) -> bool:
    thread.join(wait_s)
    return not thread.is_alive()
