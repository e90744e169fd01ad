"""Whose context variables a handler sees: `setup()`'s and its own caller's, and never another call's."""

from __future__ import annotations

import asyncio
import contextvars
import decimal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from faas.engine.thread import ModelThread
from faas.spec import Batching

from .conftest import Run
from .rig import LONG_S, Gate, call, events, outcome, outcomes, serving, settled

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


def look(x: str) -> str:
    found = TENANT.get()
    TENANT.set(f"left by {x}")
    return found


async def look_later(x: str) -> str:
    await asyncio.sleep(0)
    return look(x)


def look_each(x: str) -> Iterator[str]:
    yield look(x)
    yield TENANT.get()


async def look_each_later(x: str) -> AsyncIterator[str]:
    for step in look_each(x):
        yield step


async def asked_by(engine: Any, name: str) -> Any:
    """What a handler sees for a caller who has set the variable."""
    TENANT.set(name)
    return await outcome(engine, call(x=name))


@pytest.mark.parametrize(("handler", "kind"), [(look, "plain"), (look_later, "async")])
def test_a_handler_sees_what_its_own_caller_has_set_however_long_that_waited(run: Run, handler: Any, kind: str) -> None:
    async def scenario() -> None:
        async with serving(handler, kind, max_inputs=1) as engine:
            names = [f"caller {n}" for n in range(6)]
            asked = [asyncio.create_task(asked_by(engine, name)) for name in names]
            assert await asyncio.gather(*asked) == names
            for one in (call(x="last"), call(x="very last")):
                assert await asyncio.create_task(outcome(engine, one)) == "nobody"

    run(scenario())


@pytest.mark.parametrize(("handler", "kind"), [(look_each, "generator"), (look_each_later, "async_generator")])
def test_so_does_a_stream_at_every_step(run: Run, handler: Any, kind: str) -> None:
    async def asked(engine: Any, name: str) -> list[Any]:
        TENANT.set(name)
        return await events(engine, call(x=name))

    async def scenario() -> None:
        async with serving(handler, kind, max_inputs=1) as engine:
            tasks = [asyncio.create_task(asked(engine, name)) for name in "abc"]
            assert await asyncio.gather(*tasks) == [[name, f"left by {name}"] for name in "abc"]

    run(scenario())


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_batch_sees_nothing_that_another_has_left(run: Run, kind: str, size: int) -> None:
    def batch(x: list[str]) -> list[str]:
        return [look(x[0])] * len(x)

    async def batch_later(x: list[str]) -> list[str]:
        await asyncio.sleep(0)
        return batch(x)

    async def scenario() -> None:
        handler = batch if kind == "plain" else batch_later
        async with serving(handler, kind, Batching(max_batch_size=size)) as engine:
            found = await outcomes(engine, *(call(x=str(n)) for n in range(6)))
            assert found == ["nobody"] * 6

    run(scenario())


def test_what_setup_has_set_is_seen_by_each_thread_of_a_team_and_what_stood_before_too(run: Run) -> None:
    above: contextvars.ContextVar[str] = contextvars.ContextVar("above")

    def setup() -> None:
        TENANT.set("setup's")
        decimal.setcontext(decimal.Context(prec=5))

    async def scenario() -> None:
        above.set("the module's")
        thread, gate = ModelThread(), Gate()

        def predict(xs: list[int]) -> list[Any]:
            if xs == [1]:
                gate.pass_through()
            return [(TENANT.get(), above.get(), str(decimal.Decimal(1) / 3))]

        await thread.run(setup)
        async with serving(predict, batching=Batching(max_batch_size=1, instances=2), thread=thread) as engine:
            held, other = call(xs=1), call(xs=2)
            engine.submit(held)
            await gate.entered()
            assert await outcome(engine, other) == ("setup's", "the module's", "0.33333")
            gate.open()
            assert await held.result() == ("setup's", "the module's", "0.33333")
        assert await thread.close(LONG_S)

    run(scenario())


def test_a_call_that_waits_for_a_thread_keeps_its_callers(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()

        def predict(x: str) -> str:
            if x == "first":
                gate.pass_through()
            return TENANT.get()

        async with serving(predict) as engine:
            first = asyncio.create_task(asked_by(engine, "first"))
            await gate.entered()
            second = asyncio.create_task(asked_by(engine, "second"))
            await settled(lambda: engine.num_queued == 1)
            gate.open()
            assert await asyncio.gather(first, second) == ["first", "second"]

    run(scenario())
