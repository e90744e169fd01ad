"""Batches of one: a lone call has its place at once, and an `async def` computes it in the task of its caller."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from faas.engine.batcher import Batcher
from faas.engine.thread import ModelThread
from faas.errors import CallerGone, DeadlineExceeded, HandlerError, QueueFull, Unavailable
from faas.messages import Call
from faas.spec import Batching, QueuePolicy

from .conftest import Run
from .rig import LONG_S, Gate, call, outcome, outcomes, serving, settled
from .test_async import Held

ONE = Batching(max_batch_size=1)


async def submitted(engine: Any, made: Call) -> Any:
    engine.submit(made)
    try:
        return await made.result()
    except Exception as error:
        return error


def test_an_answer_at_hand_needs_no_task_and_no_turn_of_the_loop(run: Run) -> None:
    async def scenario() -> None:
        tasks = []

        async def predict(xs: list[int]) -> list[int]:
            tasks.append(asyncio.current_task())
            return [x + 1 for x in xs]

        async with serving(predict, "async", ONE) as engine:
            turned = asyncio.Event()
            asyncio.get_running_loop().call_soon(turned.set)
            made = call(xs=1)
            assert await engine.answer(made) == 2
            assert not turned.is_set()
            assert tasks == [asyncio.current_task()]
            assert 0 < made.queued_at <= made.picked_at <= made.started_at <= made.ended_at
            assert (made.batch_size, engine.num_running, engine.num_queued) == (1, 0, 0)

    run(scenario())


@pytest.mark.parametrize("levels", [{}, {"queue": QueuePolicy(max_queue=5)}, {"slo_ms": 10_000}, {"priorities": 2}])
@pytest.mark.parametrize("kind", ["async", "plain"])
def test_who_finds_the_place_taken_waits_in_order(run: Run, kind: str, levels: dict[str, Any]) -> None:
    async def scenario() -> None:
        seen: list[int] = []

        async def predict(xs: list[int]) -> list[int]:
            await asyncio.sleep(0)
            return note(xs)

        def note(xs: list[int]) -> list[int]:
            seen.extend(xs)
            return xs

        handler: Any = predict if kind == "async" else note
        async with serving(handler, kind, Batching(max_batch_size=1, **levels)) as engine:
            for _ in range(3):
                assert await outcomes(engine, *(call(xs=x) for x in range(5))) == [0, 1, 2, 3, 4]
            assert seen == [*range(5)] * 3

    run(scenario())


def test_each_instance_has_a_place(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", Batching(max_batch_size=1, instances=2), max_queue=1) as engine:
            tasks = [asyncio.create_task(outcome(engine, call(x=x))) for x in range(3)]
            await settled(lambda: len(held.running) == 2)
            assert (engine.num_running, engine.num_queued) == (2, 1)
            assert isinstance(await outcome(engine, call(x=3)), QueueFull)
            held.go.set()
            assert await asyncio.gather(*tasks) == [0, 1, 2]

    run(scenario())


@pytest.mark.parametrize("ask", [outcome, submitted])
def test_a_caller_who_leaves_cancels_the_handler(run: Run, ask: Any) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", ONE) as engine:
            left, mate = call(x="left"), call(x="mate")
            waiting = [asyncio.create_task(ask(engine, one)) for one in (left, mate)]
            await settled(lambda: held.running == [["left"]])
            left.leave()
            assert isinstance(await waiting[0], CallerGone)
            assert waiting[0].cancelling() == 0, "the caller's own task is left as it was"
            await settled(lambda: held.running == [["mate"]])
            assert held.cancelled == [["left"]]
            held.go.set()
            assert await waiting[1] == "mate"

    run(scenario())


@pytest.mark.parametrize("leaves", [False, True])
def test_cancelling_the_task_that_waits_is_leaving(run: Run, leaves: bool) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", ONE) as engine:
            made, next_one = call(x=1), call(x=2)
            task = asyncio.create_task(engine.answer(made))
            await settled(lambda: engine.num_running == 1)
            waiting = asyncio.create_task(engine.answer(next_one))
            if leaves:
                made.leave()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert made.context.cancelled()
            assert held.cancelled == [[1]]
            held.go.set()
            assert await waiting == 2

    run(scenario())


@pytest.mark.parametrize("ask", [outcome, submitted])
def test_deadlines_pass_in_the_queue_and_while_running(run: Run, ask: Any) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", ONE) as engine:
            got = await asyncio.gather(*(ask(engine, call(0.2, x=x)) for x in range(2)))
            assert [type(one) for one in got] == [DeadlineExceeded] * 2
            assert "while it was computed" in str(got[0])
            assert "in the queue" in str(got[1])
            await settled(lambda: engine.num_running == 0)
            assert held.begun == held.cancelled == [[0]]

    run(scenario())


def test_one_whose_time_is_up_already_is_not_computed(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", ONE) as engine:
            assert isinstance(await outcome(engine, call(-1.0, x=0)), DeadlineExceeded)
            assert (held.begun, engine.num_running, engine.num_queued) == ([], 0, 0)

    run(scenario())


def test_errors_are_the_callers_own_and_what_cancels_itself_too(run: Run) -> None:
    async def scenario() -> None:
        async def predict(xs: list[int]) -> list[int]:
            if xs == [0]:
                raise asyncio.CancelledError
            if xs == [1]:
                raise KeyError("one")
            return xs

        async with serving(predict, "async", ONE) as engine:
            task = asyncio.current_task()
            assert task is not None
            itself, raised, well = [await outcome(engine, call(xs=x)) for x in range(3)]
            assert isinstance(itself, HandlerError)
            assert isinstance(raised, KeyError)
            assert (well, task.cancelling()) == (2, 0)

    run(scenario())


def test_what_is_not_finished_within_the_grace_is_unavailable(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", ONE) as engine:
            waiting = [asyncio.create_task(outcome(engine, call(x=x))) for x in range(2)]
            await settled(lambda: engine.num_running == 1)
            await engine.drain(0.01)
            assert [type(one) for one in await asyncio.gather(*waiting)] == [Unavailable] * 2
            assert isinstance(await outcome(engine, call(x=2)), Unavailable)
            assert (held.begun, engine.num_running) == ([[0]], 0)

    run(scenario())


def test_engines_that_share_a_thread_take_turns(run: Run) -> None:
    async def scenario() -> None:
        thread, gate, seen = ModelThread(), Gate(), list[str]()

        def held(x: int) -> int:
            gate.pass_through()
            seen.append("held")
            return x

        def other(x: int) -> int:
            seen.append("other")
            return x

        async with serving(held, thread=thread) as one, serving(other, thread=thread) as two:
            first = asyncio.create_task(outcome(one, call(x=0)))
            await gate.entered()
            others = [asyncio.create_task(outcome(two, call(x=x))) for x in range(2)]
            await settled(lambda: two.num_queued == 2)
            assert two.num_running == 0
            gate.open()
            assert await asyncio.gather(first, *others) == [0, 0, 1]
            assert seen == ["held", "other", "other"]
            assert not thread.lease.held
        assert await thread.close()

    run(scenario())


@pytest.mark.parametrize("seed", range(3))
def test_whatever_callers_do_each_has_one_outcome_and_nothing_is_left(run: Run, seed: int) -> None:
    chance = random.Random(seed)

    async def predict(xs: list[int]) -> list[int]:
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(chance.choice([0, 0.0005, 0.002]))
        if chance.random() < 0.1:
            raise chance.choice([KeyError, asyncio.CancelledError])("x")
        return xs

    async def scenario() -> None:
        async with serving(predict, "async", Batching(max_batch_size=1, instances=2), max_queue=20) as engine:
            assert isinstance(engine, Batcher)

            async def caller(x: int) -> None:
                made = call(chance.choice([LONG_S, 0.003]), xs=x)
                task = asyncio.create_task(outcome(engine, made))
                await asyncio.sleep(chance.choice([0, 0.001]))
                leaves, is_cancelled = chance.random() < 0.2, chance.random() < 0.2
                if leaves:
                    made.leave()
                if is_cancelled:
                    task.cancel()
                await asyncio.wait([task])
                assert made.done or made.queued_at == 0.0, "but for one whose task never began"
                if task.cancelled():
                    assert is_cancelled
                else:
                    assert task.result() == x or isinstance(task.result(), Exception)
                    assert task.cancelling() == 0 or is_cancelled

            for _ in range(5):
                await asyncio.gather(*(caller(x) for x in range(40)))
            await settled(lambda: engine.num_running == 0)
            assert engine.num_queued == engine._num_busy == 0
            assert not any(place.executor.lease.held for place in engine._places)
            assert not engine._deadlines._calls

    run(scenario())
