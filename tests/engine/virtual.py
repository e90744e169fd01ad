"""An event loop whose time jumps to the next timer: what waits for hours is through at once, and to the microsecond."""

from __future__ import annotations

import asyncio
import contextlib
import math
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from faas.engine.batcher import Batcher
from faas.engine.engine import Engine
from faas.engine.making import Limit, make_engine
from faas.engine.thread import ModelThread
from faas.engine.work import Work
from faas.messages import Call, Context, Turn
from faas.spec import Batching

from .rig import LONG_S

EPOCH = 100.0


class VirtualLoop(asyncio.SelectorEventLoop):
    """For handlers that await: a thread's work would take no time here."""

    def __init__(self) -> None:
        self.now = EPOCH
        super().__init__(_Jumps(self))

    def time(self) -> float:
        return self.now


class _Jumps(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0 if timeout is not None else LONG_S)
        assert ready or timeout is not None, "everything waits for something that never comes"
        if not ready and timeout:
            self._loop.now += timeout
        return ready


def virtually(scenario: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario)


def now() -> float:
    """The seconds since the scenario began."""
    return round(asyncio.get_running_loop().time() - EPOCH, 6)


class Model:
    """Answers items that are numbers with their doubles, a batch in `takes_s`. `batches` are when each began, and what
    was in it."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.takes_s = takes_s
        self.batches: list[tuple[float, Any]] = []

    async def predict(self, xs: Any) -> Any:
        self.batches.append((now(), [x if isinstance(x, int | str) else list(x) for x in xs]))
        await asyncio.sleep(self.takes_s)
        return [x * 2 for x in xs]

    @property
    def sizes(self) -> list[int]:
        return [len(xs) for _, xs in self.batches]


@contextlib.asynccontextmanager
async def virtual(
    handler: Callable[..., Any],
    batching: Batching,
    *,
    max_queue: int = 1000,
    batchers: list[Batcher] | None = None,
    limit: Limit | None = None,
    **work: Any,
) -> AsyncIterator[Engine]:
    """An engine in virtual time over an `async def`."""
    engine = make_engine(
        Work(handler, "async", batched=True, **work),
        batching=batching,
        max_inputs=1000,
        max_queue=max_queue,
        thread=ModelThread(),
        batchers=batchers,
        limit=limit,
        clock=asyncio.get_running_loop().time,
    )
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


def item(xs: Any, priority: int = 0, *, within_s: float = math.inf, turn: Turn | None = None) -> Call:
    """A call with one parameter, whose time is up after `within_s`."""
    loop = asyncio.get_running_loop()
    context = Context("request", deadline=loop.time() + within_s, sequence=turn, clock=loop.time)
    return Call({"xs": xs}, context, priority)


class Callers:
    """Calls that were given to an engine; `answers` fill as they come, with the moment."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tasks: list[asyncio.Task[None]] = []
        self.answers: dict[Any, tuple[float, Any]] = {}

    def send(self, *made: Call) -> None:
        for call in made:
            self._tasks.append(asyncio.get_running_loop().create_task(self._await(call)))

    async def _await(self, call: Call) -> None:
        try:
            answer: Any = await self._engine.answer(call)
        except Exception as error:
            answer = error
        key = call.kwargs["xs"]
        self.answers[key if isinstance(key, int | str) else tuple(key)] = (now(), answer)

    async def all(self) -> dict[Any, tuple[float, Any]]:
        await asyncio.gather(*self._tasks)
        return self.answers


def waiting(**settings: Any) -> Batching:
    """Triton's and TensorFlow Serving's way: 10 ms of waiting for others."""
    return Batching(**({"max_batch_size": 4, "wait_ms": 10, "idle": "wait"} | settings))
