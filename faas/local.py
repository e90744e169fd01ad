"""A function called in the process that asks: `hello(x)`, `Embed.local(x)`, `faas run`."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from faas.errors import HandlerError
from faas.function import Endpoint, Function
from faas.handler import Handler
from faas.messages import END, Context


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
    signature = endpoint.signature
    if signature.batched:
        return _UNBATCHED[signature.kind](call_batch(handler, endpoint, [kwargs]))
    given = dict(kwargs)
    if signature.context is not None:
        given[signature.context] = Context("local")
    return handler.method(endpoint)(**given)


def call_batch(handler: Handler, endpoint: Endpoint, items: Sequence[Mapping[str, Any]]) -> Any:
    """Call a batched handler that has been set up with a batch, and return what it returns. Raises what it raises."""
    signature = endpoint.signature
    collate = signature.collate()
    given = {name: collate.get(name, list)([item[name] for item in items]) for name in items[0]}
    if signature.context is not None:
        given[signature.context] = [Context("local") for _ in items]
    return handler.method(endpoint)(**given)


def _only(answers: Any) -> Any:
    held = list(answers)
    if len(held) != 1:
        raise HandlerError(f"the handler answered {len(held)} items, 1 was given")
    if isinstance(held[0], BaseException):
        raise held[0]
    return held[0]


async def _only_later(answers: Any) -> Any:
    return _only(await answers)


def _only_each(steps: Iterator[Any]) -> Iterator[Any]:
    for step in steps:
        value = _only(step)
        if value is END:
            return
        yield value


async def _only_each_later(steps: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for step in steps:
        value = _only(step)
        if value is END:
            return
        yield value


_UNBATCHED: dict[str, Callable[[Any], Any]] = {
    "plain": _only,
    "async": _only_later,
    "generator": _only_each,
    "async_generator": _only_each_later,
}
