"""One batch from its calls to their outcomes, whatever kind of handler it is.

Written once, as coroutines: on the event loop they are awaited; on the model thread they are driven by hand and never
suspend. What differs between the two stands behind `Runner`.
"""

from __future__ import annotations

import bisect
import traceback
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from faas.clock import Clock
from faas.engine import inputs, isolation
from faas.engine.gradients import set_gradients
from faas.engine.outcomes import Attempt, Raised, as_raised, settle, shared, slots
from faas.engine.owned import owned, owned_all, owned_array
from faas.engine.work import Work
from faas.errors import HandlerError, said
from faas.messages import END, Call, num_items
from faas.spec import Batching

EXHAUSTED: Final = object()


class Shape(msgspec.Struct, frozen=True):
    """The settings that the run of a batch depends on. `sizes`, rising, are those a batch is padded up to."""

    isolate: bool = True
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, batching: Batching | None) -> Shape:
        """Return what a batching asks for; the usual where there is none."""
        if batching is None:
            return cls()
        isolate = batching.on_item_error == "isolate" and batching.sequences is None  # their steps are taken once
        return cls(isolate, batching.allowed_batch_sizes or ())

    def padded(self, num_items: int) -> int:
        """Return how many items the handler is given for `num_items`."""
        at = bisect.bisect_left(self.sizes, num_items)
        return self.sizes[at] if at < len(self.sizes) else num_items

    def smaller(self, num_items: int) -> int:
        """Return how many items the handler is given fewer for than for `num_items`; these, where any fewer will do."""
        at = bisect.bisect_left(self.sizes, num_items)
        return self.sizes[at - 1] if 0 < at < len(self.sizes) else num_items


class Report(msgspec.Struct):
    """What one batch took.

    `exec_s` is the time inside the handler, and `cpu_s` the thread's CPU time there (0.0 on the event loop, where it
    would be others' too). `runs` are size and seconds of each run that went well (streams count as one); `num_runs`
    counts those that raised as well. `exhausted_at` is the size of the smallest run that ran out of memory, 0 where
    none did. `pending` are the outcomes that still have to be handed to their calls.
    """

    num_items: int
    exec_s: float = 0.0
    cpu_s: float = 0.0
    num_runs: int = 0
    exhausted_at: int = 0
    runs: list[tuple[int, float]] = msgspec.field(default_factory=list)
    pending: list[Attempt] = msgspec.field(default_factory=list)

    def hand_out(self) -> None:
        """End the calls whose outcomes are pending. Belongs to the event loop's thread."""
        for attempt in self.pending:
            settle(attempt)
        self.pending = []


class Runner(Protocol):
    """How a handler is called, and how what it gives reaches the calls. It adds the handler's times to `report`."""

    work: Work
    report: Report
    clock: Clock

    async def call(self, arguments: dict[str, Any]) -> Any:
        """Call the handler and return its value, or the iterator of a stream."""
        ...

    async def step(self, source: Any) -> Any:
        """Return the next value of a stream, or EXHAUSTED."""
        ...

    async def close(self, source: Any) -> None:
        """Close a stream that nobody reads any more. Logs what it raises."""
        ...

    async def answer(self, attempts: list[Attempt]) -> None:
        """Hand over outcomes while the batch goes on."""
        ...

    async def deliver(self, step: Attempt) -> None:
        """Hand one step of a stream over, and wait where too much is under way."""
        ...

    def stopped(self, error: BaseException) -> bool:
        """Whether `error` is the engine's own word to stop."""
        ...


class _Stream:
    """A generator that has begun, and the slots that still have a reader."""

    def __init__(self, source: Any, calls: Sequence[Call], num_slots: int, started_at: float) -> None:
        self.source = source
        self.num_slots = num_slots
        self.started_at = started_at
        self._open = list(enumerate(calls))

    def readers(self) -> list[tuple[int, Call]]:
        """Return slot and call of each stream that has neither ended nor been left."""
        self._open = [(slot, call) for slot, call in self._open if not call.done]
        return self._open

    def drop_ended(self, values: Sequence[Any]) -> None:
        """Ignore from now on the slots whose value ended them."""
        self._open = [(slot, call) for slot, call in self._open if not _ends(values[slot])]


class Batch:
    """The run of one batch over calls that have left the queue."""

    def __init__(self, calls: list[Call], shape: Shape, runner: Runner) -> None:
        self._calls = calls
        self._shape = shape
        self._runner = runner
        self._work, self._report, self._clock = runner.work, runner.report, runner.clock
        self._began_at = 0.0
        self._streams: deque[_Stream] = deque()

    async def run(self) -> None:
        """Run the handler until each call has its outcome, handed over or in `report.pending`."""
        try:
            for group in self._work.alike(self._calls):
                await self._run_group(group)
            while self._streams:
                await self._advance(self._streams[0])
            if self._work.streams and self._report.num_runs:
                self._report.runs = [(self._report.num_items, self._report.exec_s)]
        finally:
            for stream in self._streams:
                await self._runner.close(stream.source)

    async def _run_group(self, group: list[Call]) -> None:
        isolates = self._shape.isolate and len(group) > 1
        kept = inputs.kept(group, self._work.form.copied) if isolates else None
        error = await self._attempt(group)
        if error is None:
            return
        failed = [isolation.Failed(group, error, len(group))]
        if isolates:
            failed = await self._isolate(group, error, kept)
        now = self._clock()
        for some in failed:
            values = [Raised(shared(some.error, some.num_together, self._work.title)) for _ in some.items]
            self._report.pending.append(Attempt(some.items, values, self._began_at, now))
        if self._work.streams and failed:
            await self._runner.answer(self._take_pending())

    async def _isolate(
        self, group: list[Call], error: BaseException, kept: inputs.Kept | None
    ) -> list[isolation.Failed[Call]]:
        plan = isolation.reruns(group, error, self._shape.smaller)
        try:
            tried = next(plan)
            while True:
                if kept is not None:
                    kept.restore(tried)
                tried = plan.send(await self._attempt(tried))
        except StopIteration as end:
            failed: list[isolation.Failed[Call]] = end.value
            return failed

    async def _attempt(self, calls: Sequence[Call]) -> BaseException | None:
        """Run the handler over the calls that still have somebody waiting. Returns what it raised."""
        calls = [call for call in calls if not call.done]
        if not calls:
            return None
        if self._report.pending:
            await self._runner.answer(self._take_pending())
        size = self._shape.padded(num_items(calls))
        set_gradients(self._work.grad)
        started_at = self._clock()
        self._began_at = self._began_at or started_at
        self._report.num_runs += 1
        try:
            returned = await self._runner.call(self._work.arguments(calls, size))
            first = await self._runner.step(returned) if self._work.streams else None
        except BaseException as error:
            if self._runner.stopped(error):
                raise
            self._note_memory(error, size)
            return as_raised(error)
        ended_at = self._clock()
        if self._work.streams:
            stream = _Stream(returned, calls, size, started_at)
            self._streams.append(stream)
            await self._take(stream, first)
        else:
            try:
                values = self._values(returned, calls, size)
            except Exception as error:  # where a tensor is computed as it is copied, what failed says so here
                self._note_memory(error, size)
                return as_raised(error)
            self._report.pending.append(Attempt(calls, values, started_at, ended_at))
        self._report.runs.append((size, ended_at - started_at))
        return None

    async def _advance(self, stream: _Stream) -> None:
        """Take the first stream one step on, and put it behind the others."""
        readers = stream.readers()
        if not readers:
            self._streams.popleft()
            await self._runner.close(stream.source)
            return
        self._streams.rotate(-1)
        set_gradients(self._work.grad)
        try:
            value = await self._runner.step(stream.source)
        except BaseException as error:
            if self._runner.stopped(error):
                raise
            self._note_memory(error, stream.num_slots)
            value = [Raised(shared(error, len(readers), self._work.title)) for _ in range(stream.num_slots)]
            await self._deliver(stream, value)
        else:
            await self._take(stream, value)

    async def _take(self, stream: _Stream, value: Any) -> None:
        """Hand on what one step gave. A generator that is through ends what is still open."""
        over = value is EXHAUSTED
        await self._deliver(stream, [END] * stream.num_slots if over else self._step_values(value, stream.num_slots))

    async def _deliver(self, stream: _Stream, values: Sequence[Any]) -> None:
        readers = stream.readers()
        step = Attempt(
            [call for _, call in readers], [values[slot] for slot, _ in readers], stream.started_at, self._clock()
        )
        stream.drop_ended(values)
        if readers:
            await self._runner.deliver(step)

    def _take_pending(self) -> list[Attempt]:
        pending, self._report.pending = self._report.pending, []
        return pending

    def _note_memory(self, error: BaseException, size: int) -> None:
        if isolation.out_of_memory(error):
            traceback.clear_frames(error.__traceback__)  # they hold what the next run needs the room for
            self._report.exhausted_at = min(size, self._report.exhausted_at or size)

    def _values(self, returned: Any, calls: Sequence[Call], size: int) -> list[Any]:
        whole = owned_array(returned)
        try:
            values = self._work.values(whole, calls, size)
        except HandlerError as error:
            return _each(error, len(calls))
        return owned_all(values) if whole is returned else values

    def _step_values(self, returned: Any, num_slots: int) -> list[Any]:
        try:
            if not self._work.batched:
                return [owned(returned)]
            return owned_all(slots(returned, num_slots, self._work.title))
        except HandlerError as error:
            return _each(error, num_slots)
        except Exception as error:  # as with answers
            return [Raised(shared(error, num_slots, self._work.title)) for _ in range(num_slots)]


def _each(error: HandlerError, num: int) -> list[Any]:
    return [Raised(HandlerError(said(error))) for _ in range(num)]


def _ends(value: Any) -> bool:
    return value is END or isinstance(value, BaseException | Raised)
