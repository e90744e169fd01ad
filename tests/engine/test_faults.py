"""Nothing in an engine dies: its own faults end the calls in hand, are logged, and it goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from faas.engine import strategy
from faas.engine.thread import ModelThread
from faas.errors import FaasError, Unavailable
from faas.spec import Batching

from .conftest import Run
from .rig import Gate, call, outcome, outcomes, serving


def same(xs: list[Any]) -> list[Any]:
    return xs


def test_a_policy_that_raises_fails_the_calls_in_hand(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(same, batching=Batching(max_batch_size=4)) as engine:
            with monkeypatch.context() as patched:
                patched.setattr(strategy, "decide", lambda *given: 1 / 0)
                got = await outcomes(engine, call(xs=1), call(xs=2))
            assert [type(one) for one in got] == [FaasError] * 2
            assert "ZeroDivisionError" in str(got[0])
            assert await outcomes(engine, call(xs=1), call(xs=2)) == [1, 2]

    run(scenario())
    assert any(record.exc_info for record in caplog.records)


def test_an_executor_that_raises_fails_the_batch(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        thread = ModelThread()
        async with serving(same, batching=Batching(max_batch_size=4), thread=thread) as engine:
            assert await outcome(engine, call(xs=1)) == 1
            assert await thread.close()
            got = await outcomes(engine, call(xs=1), call(xs=2))
            assert [type(one) for one in got] == [FaasError] * 2
            assert "was closed" in str(got[0])
            assert not thread.lease.held

    run(scenario())
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


class Unstackable(list[Any]):
    """A list whose length changes its mind, which the engine cannot foresee."""

    def __iter__(self) -> Any:
        return iter(())


def test_a_fault_while_a_batch_is_taken_apart_fails_that_batch(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        def predict(xs: list[Any]) -> list[Any]:
            return Unstackable(xs) if "odd" in xs else xs

        async with serving(predict, batching=Batching(max_batch_size=4)) as engine:
            got = await outcomes(engine, call(xs="odd"), call(xs=2))
            assert all(isinstance(one, FaasError) for one in got)
            assert await outcomes(engine, call(xs=1), call(xs=2)) == [1, 2]

    run(scenario())
    assert any(record.exc_info for record in caplog.records)


def test_an_observer_that_raises_disturbs_nothing(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    class Observer:
        def batch_done(self, report: object) -> None:
            raise RuntimeError("no disk")

    async def scenario() -> None:
        async with serving(same, batching=Batching(max_batch_size=4), observer=Observer()) as engine:
            for _ in range(3):
                assert await outcomes(engine, call(xs=1), call(xs=2)) == [1, 2]

    run(scenario())
    assert len(caplog.records) == 3


def test_a_loop_that_stops_under_a_batch_on_it_leaves_no_call_without_an_outcome() -> None:
    async def scenario() -> list[Any]:
        started = asyncio.Event()

        async def predict(xs: list[int]) -> list[int]:
            started.set()
            await asyncio.Event().wait()
            return xs

        async with serving(predict, "async", Batching(max_batch_size=4)) as engine:
            waiting = asyncio.gather(*(outcome(engine, call(xs=x)) for x in range(3)))
            await started.wait()
            for task in asyncio.all_tasks():
                if task.get_coro().__qualname__.startswith("OnLoop"):  # type: ignore[union-attr]
                    task.cancel()
            return await waiting

    assert [type(one) for one in asyncio.run(scenario())] == [Unavailable] * 3


def test_a_thread_that_outlives_the_loop_ends_quietly() -> None:
    thread = ModelThread()
    gates: list[Gate] = []

    async def scenario() -> None:
        gate = Gate()
        gates.append(gate)

        def predict(xs: list[int]) -> list[int]:
            gate.pass_through()
            return xs

        async with serving(predict, batching=Batching(max_batch_size=4), thread=thread) as engine:
            waiting = asyncio.create_task(outcome(engine, call(xs=1)))
            await gate.entered()
            await engine.drain(0)
            assert isinstance(await waiting, Unavailable)

    asyncio.run(scenario())
    gates[0].open()
    assert asyncio.run(thread.close(20.0))
