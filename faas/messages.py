"""What travels between the server and an engine: a caller's input, what surrounds it, and its one outcome.

A plain answer is a stream of one. Everything here but `Context.cancelled` belongs to the event loop's thread; an engine
whose handler runs elsewhere hands its results over in one hop a batch.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from faas.clock import Clock, monotonic
from faas.errors import CallerGone, HandlerError


class _Marker:
    """A value that stands for itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


END: Final = _Marker("END")
"""In a slot of a batched generator: this item's stream has ended."""

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class Turn(msgspec.Struct, frozen=True):
    """A call's place in a sequence: whose it is, whether it begins or ends it, and which slot the sequence holds.

    Slots count from 0 and are -1 until the sequence has one. State that a handler keeps for a slot starts anew with
    `start`.
    """

    id: str
    start: bool = False
    end: bool = False
    slot: int = -1


class Context:
    """What a handler may know of a call. A parameter annotated `Context` receives it.

    `headers` are lower-case names to values. `deadline` is a moment on the monotonic clock, in seconds. `sequence` is
    the call's turn in a sequence, in functions that have them.
    """

    __slots__ = ("_cancelled", "_clock", "deadline", "headers", "model_version", "request_id", "sequence")

    def __init__(
        self,
        request_id: str,
        headers: Mapping[str, str] = NO_HEADERS,
        *,
        deadline: float = float("inf"),
        model_version: str = "",
        sequence: Turn | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self.request_id = request_id
        self.headers = headers
        self.deadline = deadline
        self.model_version = model_version
        self.sequence = sequence
        self._cancelled = False
        self._clock = clock

    def cancelled(self) -> bool:
        """Tell whether nobody waits for the answer any more: the caller has left, or the call has failed already.

        May be asked from any thread.
        """
        return self._cancelled or self._clock() >= self.deadline

    def remaining_s(self) -> float:
        """Return the seconds left until the deadline, never below zero."""
        return max(0.0, self.deadline - self._clock())


class Call:
    """One caller's input on its way through an engine, and its one outcome.

    The engine calls `put` for each event of a stream and then exactly one of `finish` and `fail`; a plain answer is
    `finish(value)`. The server awaits `result()` or iterates `events()`, and calls `leave()` when the caller has gone.
    After its outcome a call ignores what still arrives, so an engine never has to ask who is listening.

    `kwargs` are the decoded body parameters, and `num_rows` what they count for in a batch: 1, unless items carry rows.
    `priority` is the level that the caller chose, 0 for none; `queue_timeout_s` how long it would wait in the
    queue at most. Times are moments on the monotonic clock in seconds, 0.0 while unknown:
    `queued_at` when an engine took it, `picked_at` when it left the queue into a batch, `started_at` when the handler
    began, `ended_at` when the outcome was there. `batch_size` is the number of items the handler was called with.
    `notes` are what engines tell about the answer beside its value, by name; None where they tell nothing.
    `scope` are the context variables of its caller, where it waits to be computed alone.
    """

    __slots__ = (
        "_error",
        "_events",
        "_room",
        "_wakeup",
        "batch_size",
        "context",
        "done",
        "ended_at",
        "kwargs",
        "notes",
        "num_rows",
        "on_leave",
        "picked_at",
        "priority",
        "queue_timeout_s",
        "queued_at",
        "scope",
        "started_at",
    )

    def __init__(self, kwargs: dict[str, Any], context: Context, priority: int = 0) -> None:
        self.kwargs = kwargs
        self.context = context
        self.priority = priority
        self.num_rows = 1
        self.queue_timeout_s = math.inf
        self.batch_size = 0
        self.queued_at = self.picked_at = self.started_at = self.ended_at = 0.0
        self.done = False
        self.on_leave: Callable[[Call], None] | None = None
        self.notes: dict[str, str] | None = None
        self.scope: contextvars.Context | None = None
        self._events: deque[Any] = deque()
        self._error: BaseException | None = None
        self._wakeup: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    @property
    def deadline(self) -> float:
        """The moment by which the answer must be there."""
        return self.context.deadline

    @property
    def has_failed(self) -> bool:
        """Whether its outcome is an error."""
        return self._error is not None

    def again(self) -> Call:
        """Return a new call of the same input, with an outcome of its own: for an engine that asks for its callers.

        The input is the same object, not a copy.
        """
        given = self.context
        context = Context(
            given.request_id,
            given.headers,
            deadline=given.deadline,
            model_version=given.model_version,
            sequence=given.sequence,
            clock=given._clock,
        )
        made = Call(self.kwargs, context, self.priority)
        made.num_rows, made.queue_timeout_s = self.num_rows, self.queue_timeout_s
        return made

    def note(self, name: str, text: str) -> None:
        """Tell something about the answer beside its value."""
        if self.notes is None:
            self.notes = {}
        self.notes[name] = text

    def put(self, value: Any) -> None:
        """Hand one event of a stream to the caller."""
        if not self.done:
            self._events.append(value)
            _resolve(self._wakeup)

    def finish(self, *values: Any) -> None:
        """End the call well, with `values` as its last events."""
        if not self.done:
            self._events.extend(values)
            self._end()

    def fail(self, error: BaseException) -> None:
        """End the call with an error. Events that were put before are still delivered."""
        if not self.done:
            self._error = error
            self.context._cancelled = True
            self._end()

    def leave(self) -> None:
        """Say that the caller has gone: the call ends here, and whoever holds it is told through `on_leave`."""
        if not self.done:
            self.fail(CallerGone("the caller left"))
            if self.on_leave is not None:
                self.on_leave(self)

    async def result(self) -> Any:
        """Wait for the single value of a plain answer.

        Raises:
            HandlerError: the call ended without a value.
            BaseException: whatever the call failed with.
        """
        while not self.done:
            await self._woken()
        if self._error is not None:
            raise self._error
        if not self._events:
            raise HandlerError("the handler gave no answer for this item")
        return self._events[0]

    def forget(self) -> None:
        """Hold the answer no longer: whoever waited for it has it."""
        self._events.clear()

    async def events(self) -> AsyncIterator[Any]:
        """Yield the events of a stream as they come, then raise what the call failed with, if it did."""
        while True:
            while self._events:
                event = self._events.popleft()
                _resolve(self._room)
                yield event
            if self.done:
                break
            await self._woken()
        if self._error is not None:
            raise self._error

    @property
    def backlog(self) -> int:
        """How many events wait to be taken: what a stream that is read slowly piles up."""
        return len(self._events)

    async def room(self, most: int) -> None:
        """Wait until fewer than `most` events wait to be taken, or the call is done. For one producer at a time."""
        while len(self._events) >= most and not self.done:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None

    def _end(self) -> None:
        self.done = True
        _resolve(self._wakeup)
        _resolve(self._room)

    def _woken(self) -> asyncio.Future[None]:
        self._wakeup = asyncio.get_running_loop().create_future()
        return self._wakeup


def num_items(calls: Sequence[Call]) -> int:
    """Return what calls count for in a batch."""
    return calls[0].num_rows if len(calls) == 1 else sum(call.num_rows for call in calls)


def _resolve(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
