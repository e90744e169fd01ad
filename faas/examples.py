"""The example inputs of a function, run in the process that makes it ready."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from faas import codec
from faas.engine.forms import form_of
from faas.engine.gradients import set_gradients
from faas.errors import PlatformError, RemoteError, SchemaMismatch, SettingError, named
from faas.function import Function
from faas.handler import Handler
from faas.local import call_batch, call_one
from faas.users_errors import users_line

_BATCH_SIZES: Final = (2, 3)
_ELSEWHERE: Final = (OSError, PlatformError, RemoteError)


def answers(handler: Handler, *, may_fail: bool) -> list[str] | None:
    """Return the answers to the example inputs as JSON, errors too; None where there are no examples.

    Unless it `may_fail`, only what is wrong here and may be right elsewhere counts for an answer: a function that is
    called, a file, a connection.

    Raises:
        SettingError: an example does not fit the signature, or the handler fails on it, as it would in every instance.
    """
    examples = handler.function.spec.warmup
    if not examples:
        return None
    return [_answer(handler, index, may_fail=may_fail) for index in range(len(examples))]


def run_batches(handler: Handler) -> None:
    """Call a batched handler with batches of several of its examples, so that batches are seen to differ in size.

    Raises:
        Exception: whatever the handler raises.
    """
    function = handler.function
    batching = function.spec.batching
    if batching is None or not function.spec.warmup:
        return
    set_gradients(function.spec.grad)
    examples = [_example(function, index) for index in range(len(function.spec.warmup))]
    form = form_of(function.main.signature, batching)
    for size in _BATCH_SIZES:
        batch = [examples[number % len(examples)] for number in range(size)]
        if sum(form.count(item) for item in batch) <= batching.max_batch_size:
            _finish(function, call_batch(handler, function.main, batch))


def _example(function: Function, index: int) -> dict[str, Any]:
    assert function.spec.warmup is not None
    try:
        return function.main.signature.convert(function.spec.warmup[index])
    except SchemaMismatch as error:
        raise SettingError(f"{function.name}: warmup[{index}] does not fit: {error}, at {error.field}") from None


def _answer(handler: Handler, index: int, *, may_fail: bool) -> str:
    function = handler.function
    kwargs = _example(function, index)
    set_gradients(function.spec.grad)
    try:
        found = _finish(function, call_one(handler, function.main, kwargs))
    except Exception as error:
        if not (may_fail or isinstance(error, _ELSEWHERE)):
            where = users_line(error)
            raise SettingError(
                f"{function.name}: on warmup[{index}] it raised {named(error)}{f' ({where})' if where else ''}, so no "
                "instance would start: mend the handler or the example"
            ) from error
        found = {"error": named(error)}
    return codec.encode(found).decode()


def _finish(function: Function, begun: Any) -> Any:
    """Return what a call of the main endpoint comes to: a stream as the list of its events."""
    match function.main.signature.kind:
        case "async":
            return asyncio.run(begun)
        case "generator":
            return list(begun)
        case "async_generator":
            return asyncio.run(_all(begun))
        case _:
            return begun


async def _all(stream: Any) -> list[Any]:
    return [event async for event in stream]
