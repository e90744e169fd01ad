"""A function called in the process that asks: `hello(x)`, `Embed.local(x)`, `faas run`."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from faas.engine.forms import work_of
from faas.engine.outcomes import Raised, slots
from faas.engine.work import Work
from faas.function import Endpoint, Function
from faas.handler import Handler
from faas.messages import END, Call, Context, Turn, num_items


class Local:
    """A handler that lives in this process. `setup()` runs at the first call, once whatever the threads."""

    def __init__(self, function: Function) -> None:
        self._handler = Handler(function)
        self._lock = threading.Lock()
        self._ready = False

    def call(self, endpoint: Endpoint, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call one endpoint with one item, as Python values.

        Raises:
            TypeError: the arguments do not fit.
            Exception: whatever the handler raises, or returns in the item's slot.
        """
        with self._lock:
            if not self._ready:
                self._handler.setup()
                self._handler.after_thaw()
                self._ready = True
        return call_one(self._handler, endpoint, endpoint.signature.bind(args, kwargs))


def call_one(handler: Handler, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> Any:
    """Call a handler that has been set up with one item, a batch of one where it is batched.

    An `async def` gives a coroutine, a stream an iterator.

    Raises:
        HandlerError: a batched handler did not answer one item with one answer.
        Exception: whatever the handler raises, or returns in the item's slot.
    """
    work = work_of(handler, endpoint)
    calls = _calls(handler, work, [kwargs])
    returned = _call(work, calls)
    if not work.batched:
        return returned

    def only(answers: Any) -> Any:
        value = _slots(work, answers, calls)[0]
        if isinstance(value, Raised):
            raise value.error
        if isinstance(value, BaseException):
            raise value
        return value

    return _UNBATCHED[work.kind](returned, only)


def call_batch(handler: Handler, endpoint: Endpoint, items: Sequence[Mapping[str, Any]]) -> Any:
    """Call a batched handler that has been set up with a batch, and return what it returns. Raises what it raises."""
    work = work_of(handler, endpoint)
    return _call(work, _calls(handler, work, items))


def _calls(handler: Handler, work: Work, items: Sequence[Mapping[str, Any]]) -> list[Call]:
    batching = handler.function.spec.batching
    calls = [Call(dict(item), Context("local")) for item in items]
    for slot, call in enumerate(calls):
        call.num_rows = work.form.count(call.kwargs)
        if batching is not None and batching.sequences is not None:
            call.context.sequence = Turn(f"local-{slot}", start=True, end=True, slot=slot)
    return calls


def _call(work: Work, calls: list[Call]) -> Any:
    return work.call(**work.arguments(calls, num_items(calls)))


def _slots(work: Work, answers: Any, calls: list[Call]) -> list[Any]:
    if work.streams:
        return slots(answers, len(calls), work.title)
    return work.values(answers, calls, num_items(calls))


Only = Callable[[Any], Any]


def _only(answers: Any, only: Only) -> Any:
    return only(answers)


async def _only_later(answers: Any, only: Only) -> Any:
    return only(await answers)


def _only_each(steps: Iterator[Any], only: Only) -> Iterator[Any]:
    for step in steps:
        value = only(step)
        if value is END:
            return
        yield value


async def _only_each_later(steps: AsyncIterator[Any], only: Only) -> AsyncIterator[Any]:
    async for step in steps:
        value = only(step)
        if value is END:
            return
        yield value


_UNBATCHED: dict[str, Callable[[Any, Only], Any]] = {
    "plain": _only,
    "async": _only_later,
    "generator": _only_each,
    "async_generator": _only_each_later,
}
