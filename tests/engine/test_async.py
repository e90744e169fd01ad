"""Handlers that await: without batching the direct engine, with it the batcher on the loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from faas.errors import BadInput, CallerGone, DeadlineExceeded, HandlerError, QueueFull, Unavailable
from faas.messages import Context
from faas.spec import Batching

from .conftest import Run
from .rig import LONG_S, call, outcome, outcomes, serving, settled


class Held:
    """An async handler whose calls wait until the test lets them go; knows who runs."""

    def __init__(self) -> None:
        self.running: list[Any] = []
        self.begun: list[Any] = []
        self.cancelled: list[Any] = []
        self.go = asyncio.Event()

    async def predict(self, x: Any) -> Any:
        self.running.append(x)
        self.begun.append(x)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(x)
            raise
        finally:
            self.running.remove(x)
        return x


def test_an_answer_at_hand_needs_no_task(run: Run) -> None:
    async def scenario() -> None:
        tasks = []

        async def predict(x: int) -> int:
            tasks.append(asyncio.current_task())
            return x + 1

        async with serving(predict, "async") as engine:
            made = call(x=1)
            assert await engine.answer(made) == 2
            assert tasks == [asyncio.current_task()]
            assert 0 < made.queued_at <= made.picked_at <= made.started_at <= made.ended_at
            assert made.batch_size == 1
            assert engine.num_running == 0

    run(scenario())


def test_submitting_gives_the_same_answer(run: Run) -> None:
    async def scenario() -> None:
        async def predict(x: int, context: Context) -> str:
            return f"{context.request_id} {x}"

        async with serving(predict, "async", context="context") as engine:
            made = call(x=1)
            engine.submit(made)
            assert await made.result() == await engine.answer(call(x=1)) == "request 1"

    run(scenario())


def test_at_most_max_inputs_run_at_once_and_the_rest_waits_in_order(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", max_inputs=3, max_queue=4) as engine:
            waiting = [asyncio.create_task(outcome(engine, call(x=x))) for x in range(10)]
            await settled(lambda: sum(task.done() for task in waiting) == 3)
            assert held.running == [0, 1, 2]
            assert (engine.num_running, engine.num_queued) == (3, 4)
            assert [type(task.result()) for task in waiting[7:]] == [QueueFull] * 3
            assert all(task.result().retry_after_s >= 1.0 for task in waiting[7:])
            held.go.set()
            assert [await task for task in waiting[:7]] == list(range(7))
            assert held.begun == list(range(7))

    run(scenario())


def test_errors_reach_their_caller_as_they_are(run: Run) -> None:
    async def scenario() -> None:
        async def predict(x: str) -> Any:
            if x == "return":
                return ValueError("no")
            if x == "cancel":
                raise asyncio.CancelledError
            if x == "stop":
                raise StopAsyncIteration
            if x == "exit":
                raise SystemExit(1)
            raise KeyError(x)

        async with serving(predict, "async", max_inputs=2) as engine:
            for ask in (outcome, submitted):
                got = [await ask(engine, call(x=x)) for x in ("return", "cancel", "stop", "exit", "other")]
                assert [type(one) for one in got] == [BadInput, HandlerError, HandlerError, HandlerError, KeyError]
            assert engine.num_running == 0

    run(scenario())


async def submitted(engine: Any, made: Any) -> Any:
    engine.submit(made)
    try:
        return await made.result()
    except Exception as error:
        return error


@pytest.mark.parametrize("ask", [outcome, submitted])
def test_a_caller_who_leaves_cancels_the_handler(run: Run, ask: Any) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async") as engine:
            left, mate = call(x="left"), call(x="mate")
            waiting = [asyncio.create_task(ask(engine, one)) for one in (left, mate)]
            await settled(lambda: len(held.running) == 2)
            left.leave()
            assert isinstance(await waiting[0], CallerGone)
            assert waiting[0].cancelling() == 0, "the caller's own task is left as it was"
            await settled(lambda: engine.num_running == 1)
            assert held.cancelled == ["left"]
            held.go.set()
            assert await waiting[1] == "mate"

    run(scenario())


def test_a_caller_who_leaves_before_his_task_began_is_not_computed(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async") as engine:
            made = call(x=1)
            engine.submit(made)
            made.leave()
            await settled(lambda: engine.num_running == 0)
            assert held.begun == []

    run(scenario())


def test_a_caller_who_leaves_while_queued_is_not_computed(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", max_inputs=1, max_queue=1) as engine:
            first = asyncio.create_task(outcome(engine, call(x=0)))
            await settled(lambda: engine.num_running == 1)
            left = call(x=1)
            engine.submit(left)
            left.leave()
            assert engine.num_queued == 0
            engine.submit(stays := call(x=2))
            held.go.set()
            assert await first == 0
            assert await stays.result() == 2
            assert held.begun == [0, 2]

    run(scenario())


def test_cancelling_the_task_that_waits_is_leaving(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", max_inputs=1) as engine:
            calls = [call(x=x) for x in range(2)]
            tasks = [asyncio.create_task(engine.answer(one)) for one in calls]
            await settled(lambda: (engine.num_running, engine.num_queued) == (1, 1))
            for task in reversed(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert all(task.cancelled() for task in tasks)
            assert all(one.context.cancelled() for one in calls)
            assert (engine.num_running, engine.num_queued) == (0, 0)
            assert held.begun == held.cancelled == [0]

    run(scenario())


def test_a_cancellation_is_not_lost_where_the_caller_leaves_as_well(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async") as engine:
            made = call(x=1)
            task = asyncio.create_task(engine.answer(made))
            await settled(lambda: engine.num_running == 1)
            made.leave()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (held.cancelled, engine.num_running) == ([1], 0)

    run(scenario())


@pytest.mark.parametrize("ask", [outcome, submitted])
def test_deadlines_pass_in_the_queue_and_while_running(run: Run, ask: Any) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", max_inputs=1) as engine:
            # Those in the queue first: with one deadline for all, the first one's place could be taken by then.
            got = await asyncio.gather(*(ask(engine, call(0.2 if x == 0 else 0.1, x=x)) for x in range(3)))
            assert [type(one) for one in got] == [DeadlineExceeded] * 3
            assert "while it was computed" in str(got[0])
            assert "in the queue" in str(got[2])
            await settled(lambda: engine.num_running == 0)
            assert held.begun == held.cancelled == [0]

    run(scenario())


def test_a_handler_that_swallows_its_cancellation_keeps_its_place_until_it_ends(run: Run) -> None:
    async def scenario() -> None:
        go = asyncio.Event()

        async def predict(x: int) -> int:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await go.wait()
            return x

        async with serving(predict, "async", max_inputs=1) as engine:
            waiting = asyncio.create_task(submitted(engine, call(0.2, x=1)))
            assert isinstance(await waiting, DeadlineExceeded)
            assert engine.num_running == 1
            go.set()
            await settled(lambda: engine.num_running == 0)

    run(scenario())


def test_draining_finishes_what_runs_and_what_is_queued(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", max_inputs=1) as engine:
            tasks = [asyncio.create_task(outcome(engine, call(x=x))) for x in range(3)]
            await settled(lambda: engine.num_queued == 2)
            draining = asyncio.create_task(engine.drain(LONG_S))
            await asyncio.sleep(0)
            assert isinstance(await outcome(engine, call(x=9)), Unavailable)
            held.go.set()
            await draining
            assert [await task for task in tasks] == [0, 1, 2]

    run(scenario())


def test_what_is_not_finished_within_the_grace_is_unavailable(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", max_inputs=1) as engine:
            tasks = [asyncio.create_task(outcome(engine, call(x=x))) for x in range(3)]
            await settled(lambda: engine.num_queued == 2)
            await engine.drain(0.01)
            assert [type(await task) for task in tasks] == [Unavailable] * 3
            assert held.begun == held.cancelled == [0]

    run(scenario())


def test_batched_async_handlers_get_lists_and_isolate_as_plain_ones_do(run: Run) -> None:
    async def scenario() -> None:
        runs = []

        async def predict(xs: list[int]) -> list[float]:
            runs.append(list(xs))
            await asyncio.sleep(0)
            return [1 / x for x in xs]

        async with serving(predict, "async", Batching(max_batch_size=4)) as engine:
            got = await outcomes(engine, *(call(xs=x) for x in (1, 2, 0, 4)))
        assert [got[0], got[1], got[3]] == [1.0, 0.5, 0.25]
        assert isinstance(got[2], ZeroDivisionError)
        assert runs == [[1, 2, 0, 4], [1, 2], [0], [4]]

    run(scenario())


def test_a_batch_on_the_loop_is_cancelled_once_all_its_callers_have_gone(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", Batching(max_batch_size=2)) as engine:
            calls = [call(x=x) for x in range(2)]
            tasks = [asyncio.create_task(outcome(engine, one)) for one in calls]
            await settled(lambda: len(held.running) == 1)
            calls[0].leave()
            await asyncio.sleep(0)
            assert held.cancelled == []
            calls[1].leave()
            assert [type(await task) for task in tasks] == [CallerGone] * 2
            await settled(lambda: engine.num_running == 0)
            assert held.cancelled == [[0, 1]]
            held.go.set()
            assert await outcomes(engine, call(x=5), call(x=6)) == [5, 6]

    run(scenario())


def test_a_batch_whose_callers_all_leave_before_it_begins_is_not_computed(run: Run) -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held.predict, "async", Batching(max_batch_size=2)) as engine:
            calls = [call(x=x) for x in range(2)]
            for one in calls:
                engine.submit(one)
            while engine.num_running == 0:
                await asyncio.sleep(0)
            assert held.begun == [], "the batch has been formed in this turn of the loop, and its task has not begun"
            for one in calls:
                one.leave()
            await settled(lambda: engine.num_running == 0)
            assert held.begun == []
            held.go.set()
            assert await outcomes(engine, call(x=5), call(x=6)) == [5, 6]

    run(scenario())


def test_a_batched_async_handler_that_cancels_itself_fails_its_items(run: Run) -> None:
    async def scenario() -> None:
        async def predict(xs: list[int]) -> list[int]:
            if 0 in xs:
                raise asyncio.CancelledError
            return xs

        async with serving(predict, "async", Batching(max_batch_size=2)) as engine:
            got = await outcomes(engine, call(xs=0), call(xs=1))
            assert (type(got[0]), got[1]) == (HandlerError, 1)

    run(scenario())


def test_many_calls_leave_nothing_behind(run: Run) -> None:
    async def scenario() -> None:
        async def predict(x: int) -> int:
            if x % 3:
                await asyncio.sleep(0)
            return x

        async with serving(predict, "async", max_inputs=10, max_queue=1000) as engine:
            assert await outcomes(engine, *(call(x=x) for x in range(500))) == list(range(500))
            assert (engine.num_running, engine.num_queued) == (0, 0)
            assert len(engine._deadlines._calls) == 0  # type: ignore[attr-defined]

    run(scenario())
