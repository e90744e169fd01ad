"""Where a batch runs: on the model thread, or on the event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from faas.clock import Clock
from faas.engine.batch import Batch, Report, Shape
from faas.engine.hop import hop
from faas.engine.runners import LoopRunner, ThreadRunner
from faas.engine.thread import Lease, ModelThread, Right
from faas.engine.work import Work
from faas.messages import Call, num_items

Ended = Callable[[Report, BaseException | None], None]

_NONE: Final = object()


class Executor(Protocol):
    """Runs one batch at a time, while its engine holds `lease`."""

    lease: Right

    @property
    def fate(self) -> str:
        """What becomes of a handler whose time is up, as its callers are told."""
        ...

    def start(self, calls: list[Call], ended: Ended) -> None:
        """Run the batch; call `ended` on the loop, once, when the handler has really ended.

        `ended` is told of an error where the executor itself failed; calls may then be without an outcome.
        """
        ...

    async def run(self, calls: list[Call], ended: Ended) -> None:
        """Do as `start` does, for a batch whose only caller awaits this: in its own task where that can be.

        There it ends with the handler, so one that swallows its cancellation keeps this waiting, too: the outcome of
        the call is there in time, and has to be handed on by somebody else.

        Raises:
            CancelledError: the caller was cancelled. The batch was, too, and has ended.
        """
        ...

    def forgo(self) -> bool:
        """Say that nobody waits for the running batch any more. Whether it is being cancelled, so that it ends soon."""
        ...


class OnThread:
    """Plain handlers and generators: on the model thread, one batch after another, shared with other engines.

    A handler sees the context variables that `setup()` left on the thread, and none that another call has set. One that
    is not batched sees those, too, that its caller has set since the engine was made.
    """

    def __init__(self, work: Work, shape: Shape, thread: ModelThread, clock: Clock) -> None:
        self.lease: Right = thread.lease
        self._work = work
        self._shape = shape
        self._thread = thread
        self._clock = clock
        self._began_at = 0.0
        self._known = contextvars.copy_context()

    @property
    def fate(self) -> str:
        """See `Executor`."""
        return "; its handler still runs" + (
            ", and the instance is replaced if it does not end soon" if self._thread.is_watched else ""
        )

    def start(self, calls: list[Call], ended: Ended) -> None:
        """See `Executor`."""
        loop = asyncio.get_running_loop()
        report = Report(num_items(calls))
        runner = ThreadRunner(self._work, report, loop, self._clock)
        batch = Batch(calls, self._shape, runner)
        scope = None if self._work.batched else calls[0].scope or contextvars.copy_context()

        def job() -> None:
            error: BaseException | None = None
            try:
                contextvars.copy_context().run(self._run, batch, scope)
            except BaseException as raised:
                error = raised
            hop(loop, over, report, error)

        def over(report: Report, error: BaseException | None) -> None:
            self._thread.ended()
            ended(report, error)

        self._began_at = self._clock()
        try:
            self._thread.post(job)
        except RuntimeError as error:  # it was closed
            loop.call_soon(over, report, error)

    def _run(self, batch: Batch, scope: contextvars.Context | None) -> None:
        """On the thread, in a context of its own: run a batch among the variables of its caller."""
        if scope is not None:
            for variable, value in scope.items():
                if self._known.get(variable, _NONE) is not value:
                    variable.set(value)
        _complete(batch.run())

    async def run(self, calls: list[Call], ended: Ended) -> None:
        """See `Executor`."""
        self.start(calls, ended)

    def forgo(self) -> bool:
        """See `Executor`. A thread cannot be stopped; a generator on it looks for itself after each step."""
        self._thread.forgone(self._clock() - self._began_at)
        return False


class OnLoop:
    """Handlers that await: in one task for the batch. Engines that share a `lease` take turns.

    A task sees no context variables that a caller, or another batch, has set since this was made.
    """

    def __init__(self, work: Work, shape: Shape, clock: Clock, lease: Lease | None = None) -> None:
        self.lease: Right = lease or Lease()
        self._work = work
        self._shape = shape
        self._clock = clock
        self._task: asyncio.Task[Any] | None = None
        self._begun = False
        self._num_stops = 0
        self._known = contextvars.copy_context()

    @property
    def fate(self) -> str:
        """See `Executor`. It is cancelled."""
        return ""

    def start(self, calls: list[Call], ended: Ended) -> None:
        """See `Executor`."""
        self._begun = False
        context = self._known.copy()
        self._task = asyncio.get_running_loop().create_task(self.run(calls, ended), context=context)

    def forgo(self) -> bool:
        """See `Executor`."""
        if self._task is None:
            return False
        # A task that is cancelled before it has begun never runs, and would never say that it ended. Let it find that
        # nobody waits.
        if not self._begun:
            return True
        self._num_stops += 1
        return self._task.cancel()

    async def run(self, calls: list[Call], ended: Ended) -> None:
        """See `Executor`."""
        report = Report(num_items(calls))
        batch = Batch(calls, self._shape, LoopRunner(self._work, report, self._clock))
        self._task = task = asyncio.current_task()
        assert task is not None
        self._begun, self._num_stops = True, 0
        error: BaseException | None = None
        try:
            await batch.run()
        except BaseException as raised:
            error = raised
        self._task = None
        for _ in range(self._num_stops):
            task.uncancel()  # it was our own doing, and nothing that whoever awaits the task should see
        ended(report, error)
        if isinstance(error, asyncio.CancelledError) and task.cancelling():
            raise error


def _complete(coroutine: Coroutine[Any, Any, None]) -> None:
    """Drive a coroutine that never suspends to its end."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("a batch on the model thread awaited something")
