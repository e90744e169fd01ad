"""What the tests of engines share: calls, and an engine with its thread that are closed whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from faas.clock import monotonic
from faas.engine.engine import Engine
from faas.engine.forms import form_of
from faas.engine.making import make_engine
from faas.engine.thread import ModelThread
from faas.engine.work import Work
from faas.function import Function
from faas.messages import Call, Context
from faas.spec import Batching

LONG_S = 20.0
"""A time-out that only a hang reaches."""


class FakeClock:
    """Time that only the test moves."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def call(timeout_s: float = LONG_S, *, priority: int = 1, **kwargs: Any) -> Call:
    return Call(kwargs, Context("request", deadline=monotonic() + timeout_s), priority)


@contextlib.asynccontextmanager
async def serving(
    handler: Callable[..., Any],
    kind: str = "plain",
    batching: Batching | None = None,
    *,
    max_inputs: int = 100,
    max_queue: int = 1000,
    thread: ModelThread | None = None,
    observer: Any = None,
    **work: Any,
) -> AsyncIterator[Engine]:
    """An engine over `handler`, batched where there is a batching."""
    model = thread or ModelThread()
    engine = make_engine(
        Work(handler, kind, batched=batching is not None, **work),  # type: ignore[arg-type]
        batching=batching,
        max_inputs=max_inputs,
        max_queue=max_queue,
        thread=model,
        observer=observer,
    )
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()
        if thread is None:
            assert await model.close(LONG_S)


def serving_of(function: Any, **options: Any) -> Any:
    """The engine of a decorated function."""
    assert isinstance(function, Function)
    form = form_of(function.main.signature, function.spec.batching)
    signature = function.main.signature
    return serving(
        function.user, signature.kind, function.spec.batching, form=form, context=signature.context, **options
    )


async def outcome(engine: Engine, made: Call) -> Any:
    """The value of a call, or what it failed with."""
    try:
        return await engine.answer(made)
    except Exception as error:
        return error


async def outcomes(engine: Engine, *made: Call) -> list[Any]:
    return await asyncio.gather(*(outcome(engine, one) for one in made))


async def events(engine: Engine, made: Call) -> list[Any]:
    """The events of a stream; an error that ended it stands last."""
    seen: list[Any] = []
    try:
        engine.submit(made)
        async for event in made.events():
            seen.append(event)  # noqa: PERF401, what came before an error counts
    except Exception as error:
        seen.append(error)
    return seen


class Gate:
    """Holds a handler on the model thread until the test opens it; tells the loop that it has come."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._entered = asyncio.Event()
        self._open = threading.Event()

    def pass_through(self) -> None:
        """Called by the handler."""
        self._loop.call_soon_threadsafe(self._entered.set)
        assert self._open.wait(LONG_S), "the test never opened the gate"

    async def entered(self) -> None:
        await asyncio.wait_for(self._entered.wait(), LONG_S)

    def open(self) -> None:
        self._open.set()


async def settled(condition: Callable[[], bool]) -> None:
    """Let the loop turn until `condition()` holds."""
    async with asyncio.timeout(LONG_S):
        while not condition():
            await asyncio.sleep(0.001)
