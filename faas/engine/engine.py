"""The contract of an engine, and which one serves what."""

from __future__ import annotations

from typing import Any, Protocol

from faas.clock import Clock, monotonic
from faas.engine.batch import Shape
from faas.engine.batcher import Batcher
from faas.engine.direct import Direct
from faas.engine.executor import OnLoop, OnThread
from faas.engine.levels import Levels
from faas.engine.observer import Observer
from faas.engine.policy import Rules
from faas.engine.thread import ModelThread
from faas.engine.work import Work
from faas.messages import Call
from faas.spec import Batching


class Engine(Protocol):
    """Takes calls for one endpoint of a handler, and gives each exactly one outcome. Belongs to the event loop.

    A call whose deadline passes fails at once; what blocks goes on holding its place until it really ends. A call that
    is left while it waits is never computed.
    """

    def submit(self, call: Call) -> None:
        """Take a call. It gets its outcome through `Call.put`, `finish` and `fail`. One that has been left is ignored.

        Raises:
            QueueFull: there is no room; says when there may be.
            DeadlineUnmeetable: the function's promise could not be kept for it.
            Unavailable: the engine is draining.
        """
        ...

    async def answer(self, call: Call) -> Any:
        """Take a call of a handler that does not stream, and return its value: the shortest way there is.

        Cancelling it is leaving.

        Raises:
            Refused: as `submit` does.
            BaseException: whatever the call failed with.
        """
        ...

    @property
    def num_queued(self) -> int:
        """Calls that wait."""
        ...

    @property
    def num_running(self) -> int:
        """Calls that are being computed, those whose callers have gone included."""
        ...

    async def start(self) -> None:
        """Be ready for calls."""
        ...

    async def drain(self, grace_s: float) -> None:
        """Take no new calls and finish those in hand; after `grace_s` seconds the rest fail with Unavailable."""
        ...

    async def close(self) -> None:
        """End at once; what is in hand fails with Unavailable."""
        ...


def make_engine(
    work: Work,
    *,
    batching: Batching | None,
    max_inputs: int,
    max_queue: int,
    thread: ModelThread,
    clock: Clock = monotonic,
    observer: Observer | None = None,
) -> Engine:
    """Return the engine for one endpoint.

    `max_inputs` bounds what an `async def` without batching computes at once; everything else computes one batch at a
    time. `max_queue` bounds what waits beyond that.

    Raises:
        ValueError: `work` is batched and there is no batching, or the other way round.
    """
    if work.batched != (batching is not None):
        raise ValueError(f"{work.title} is {'' if work.batched else 'not '}batched, but batching={batching!r}")
    if work.on_loop and batching is None:
        return Direct(work, max_inputs, max_queue, clock=clock)
    shape = Shape()
    if batching is not None:
        shape = Shape(batching.on_item_error == "isolate", batching.allowed_batch_sizes or ())
    executor = OnLoop(work, shape, clock) if work.on_loop else OnThread(work, shape, thread, clock)
    levels = Levels.of(batching)
    return Batcher([executor], Rules.of(batching), max_queue, levels=levels, clock=clock, observer=observer)
