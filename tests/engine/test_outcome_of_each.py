"""Whatever happens to its callers and its handler, an engine gives each call exactly one outcome and is empty after."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from faas.clock import monotonic
from faas.errors import BadInput, CallerGone, DeadlineExceeded, DeadlineUnmeetable, FaasError, HandlerError, QueueFull
from faas.messages import END, Call, Context
from faas.spec import Batching

from .conftest import Run
from .rig import serving, settled

NUM_CALLS = 300


class Counted(Call):
    """A call that counts the outcomes that were its own."""

    __slots__ = ("num_outcomes",)

    def __init__(self, kwargs: dict[str, Any], context: Context, priority: int) -> None:
        super().__init__(kwargs, context, priority)
        self.num_outcomes = 0

    def _end(self) -> None:
        self.num_outcomes += 1
        super()._end()


def answer(x: int) -> Any:
    """Most items are fine; some are returned as errors, and a few raise."""
    if x % 41 == 0:
        raise BadInput(f"raised {x}")
    if x % 43 == 0:
        raise RuntimeError(f"raised {x}")
    if x % 23 == 0:
        return ValueError(f"returned {x}")
    return -x


def step_of(x: int, step: int) -> Any:
    if step == 0:
        return answer(x)
    if step == 2 and x % 47 == 0:
        raise RuntimeError(f"raised {x} midway")
    return END if step > x % 4 else step


def plain(x: int) -> Any:
    return answer(x)


def plain_batch(x: list[int]) -> Any:
    return [answer(one) for one in x]


async def awaiting(x: int) -> Any:
    await asyncio.sleep(0.0005 * (x % 5))
    return answer(x)


async def awaiting_batch(x: list[int]) -> Any:
    await asyncio.sleep(0.001)
    return plain_batch(x)


def stream(x: int) -> Iterator[Any]:
    for step in range(6):
        yield step_of(x, step)


def stream_batch(x: list[int]) -> Iterator[Any]:
    for step in range(6):
        yield [step_of(one, step) for one in x]


async def awaiting_stream(x: int) -> AsyncIterator[Any]:
    for event in stream(x):
        yield event
        await asyncio.sleep(0)


async def awaiting_stream_batch(x: list[int]) -> AsyncIterator[Any]:
    for slots in stream_batch(x):
        yield slots
        await asyncio.sleep(0)


HANDLERS = [
    (plain, "plain", False),
    (plain_batch, "plain", True),
    (awaiting, "async", False),
    (awaiting_batch, "async", True),
    (stream, "generator", False),
    (stream_batch, "generator", True),
    (awaiting_stream, "async_generator", False),
    (awaiting_stream_batch, "async_generator", True),
]

EXPECTED = (BadInput, CallerGone, DeadlineExceeded, DeadlineUnmeetable, HandlerError, QueueFull, RuntimeError)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("handler", "kind", "batched"), HANDLERS, ids=[handler.__name__ for handler, *_ in HANDLERS])
def test_each_call_gets_exactly_one_outcome(run: Run, handler: Any, kind: str, batched: bool, seed: int) -> None:
    rng = random.Random(seed)
    batching = Batching(max_batch_size=8, wait_ms=1, priorities=3, slo_ms=rng.choice([None, 50])) if batched else None

    async def one_caller(engine: Any, call: Counted) -> Any:
        streams = kind.endswith("generator")
        try:
            if streams or rng.random() < 0.5:
                engine.submit(call)
                return [event async for event in call.events()] if streams else await call.result()
            return await engine.answer(call)
        except Exception as error:
            return error

    async def scenario() -> None:
        calls, tasks = [], []
        async with serving(handler, kind, batching, max_inputs=10, max_queue=60) as engine:
            for x in range(1, NUM_CALLS + 1):
                deadline = monotonic() + (rng.random() * 0.02 if rng.random() < 0.2 else 20.0)
                call = Counted({"x": x}, Context(str(x), deadline=deadline), rng.randint(1, 3))
                calls.append(call)
                tasks.append(asyncio.create_task(one_caller(engine, call)))
                if rng.random() < 0.2:
                    await asyncio.sleep(rng.random() * 0.003)
                if rng.random() < 0.2:
                    rng.choice(calls).leave()
                if rng.random() < 0.05:
                    rng.choice(tasks).cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            for call in calls:
                call.leave()
            await settled(lambda: (engine.num_running, engine.num_queued) == (0, 0))
            assert not engine._deadlines._calls  # type: ignore[attr-defined]
        for call, outcome in zip(calls, outcomes, strict=True):
            x = call.kwargs["x"]
            assert call.num_outcomes == 1
            if isinstance(outcome, asyncio.CancelledError):
                continue
            if isinstance(outcome, BaseException):
                assert isinstance(outcome, EXPECTED)
                assert type(outcome) is not FaasError, "the engine's own fault"
                assert call.queued_at == 0.0 or call.ended_at > 0.0
            elif kind.endswith("generator"):
                assert outcome == [-x, *range(1, x % 4 + 1)]
            else:
                assert outcome == -x
        assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) > NUM_CALLS // 4

    run(scenario())
