from __future__ import annotations

import asyncio
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from faas.engine.batch import Report
from faas.engine.making import make_engine
from faas.engine.thread import ModelThread
from faas.engine.work import Stacked, Work
from faas.errors import (
    BadInput,
    CallerGone,
    DeadlineExceeded,
    DeadlineUnmeetable,
    HandlerError,
    QueueFull,
    Unavailable,
)
from faas.messages import Call, Context
from faas.spec import Batching

from .conftest import Run
from .rig import LONG_S, Gate, call, outcome, outcomes, serving, settled


class Doubler:
    """Doubles each item; holds the batch at the gate when an item is "gate"."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.batches: list[list[Any]] = []
        self._gate = gate

    def predict(self, xs: list[Any]) -> list[Any]:
        self.batches.append(list(xs))
        if "gate" in xs:
            assert self._gate is not None
            self._gate.pass_through()
        return [x * 2 for x in xs]


def test_a_plain_function_takes_one_item_at_a_time_on_the_model_thread(run: Run) -> None:
    async def scenario() -> None:
        threads, at_once, most = set(), [0], [0]

        def predict(x: int) -> int:
            threads.add(threading.current_thread())
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
            at_once[0] -= 1
            return x + 1

        async with serving(predict) as engine:
            assert await outcomes(engine, *(call(x=x) for x in range(50))) == list(range(1, 51))
        assert len(threads) == 1
        assert threading.current_thread() not in threads
        assert most == [1]

    run(scenario())


def test_concurrent_calls_become_one_batch_in_their_order(run: Run) -> None:
    async def scenario() -> None:
        model = Doubler()
        async with serving(model.predict, batching=Batching(max_batch_size=8)) as engine:
            made = [call(xs=x) for x in range(8)]
            assert await outcomes(engine, *made) == [0, 2, 4, 6, 8, 10, 12, 14]
            assert model.batches == [[0, 1, 2, 3, 4, 5, 6, 7]]
            for one in made:
                assert one.batch_size == 8
                assert 0 < one.queued_at <= one.picked_at <= one.started_at <= one.ended_at

    run(scenario())


def test_the_largest_size_is_never_exceeded(run: Run) -> None:
    async def scenario() -> None:
        model = Doubler()
        async with serving(model.predict, batching=Batching(max_batch_size=5)) as engine:
            assert await outcomes(engine, *(call(xs=x) for x in range(23))) == [2 * x for x in range(23)]
        assert [len(batch) for batch in model.batches] == [5, 5, 5, 5, 3]

    run(scenario())


def test_batched_at_size_one_each_argument_is_a_list(run: Run) -> None:
    async def scenario() -> None:
        model = Doubler()
        async with serving(model.predict, batching=Batching(max_batch_size=1)) as engine:
            assert await outcomes(engine, call(xs=1), call(xs=2)) == [2, 4]
        assert model.batches == [[1], [2]]

    run(scenario())


def test_a_batch_is_padded_up_with_its_last_item_and_the_padding_dropped(run: Run) -> None:
    async def scenario() -> None:
        model = Doubler()
        batching = Batching(max_batch_size=8, allowed_batch_sizes=(2, 4, 8))
        async with serving(model.predict, batching=batching) as engine:
            made = [call(xs=x) for x in range(5)]
            assert await outcomes(engine, *made) == [0, 2, 4, 6, 8]
            assert await outcome(engine, call(xs=9)) == 18
        assert model.batches == [[0, 1, 2, 3, 4, 4, 4, 4], [9, 9]]
        assert made[0].batch_size == 5

    run(scenario())


def test_an_exception_in_a_slot_fails_that_item_alone(run: Run) -> None:
    async def scenario() -> None:
        def predict(xs: list[int]) -> list[Any]:
            return [ValueError("odd") if x % 2 else KeyError("gone") if x == 4 else x for x in xs]

        async with serving(predict, batching=Batching(max_batch_size=4)) as engine:
            got = await outcomes(engine, *(call(xs=x) for x in (0, 1, 2, 4)))
        assert [got[0], got[2]] == [0, 2]
        assert isinstance(got[1], BadInput)
        assert isinstance(got[3], KeyError)

    run(scenario())


def test_unbatched_errors_reach_their_caller_as_they_are(run: Run) -> None:
    async def scenario() -> None:
        def predict(x: Any) -> Any:
            if x == "return":
                return TypeError("no text")
            if x == "bad":
                raise BadInput("empty")
            if x == "exit":
                raise SystemExit(1)
            return {"a": 1}[x]

        async with serving(predict) as engine:
            got = await outcomes(engine, *(call(x=x) for x in ("return", "bad", "exit", "b", "a")))
        assert [type(one) for one in got] == [BadInput, BadInput, HandlerError, KeyError, int]

    run(scenario())


@pytest.mark.parametrize("returned", [{"a": 1}, "abcd", [1, 2, 3], None])
def test_a_wrong_answer_fails_every_item_and_is_not_tried_again(run: Run, returned: Any) -> None:
    async def scenario() -> None:
        runs = []

        def predict(xs: list[int]) -> Any:
            runs.append(xs)
            return returned

        async with serving(predict, batching=Batching(max_batch_size=4)) as engine:
            got = await outcomes(engine, *(call(xs=x) for x in range(4)))
        assert [type(one) for one in got] == [HandlerError] * 4
        assert len({id(one) for one in got}) == 4, "one exception object raised at four callers grows their tracebacks"
        assert "4 items" in str(got[0])
        assert len(runs) == 1

    run(scenario())


def test_a_batch_that_raised_may_fail_as_one(run: Run) -> None:
    async def scenario() -> None:
        runs = []

        def predict(xs: list[int]) -> list[float]:
            runs.append(xs)
            return [1 / x for x in xs]

        async with serving(predict, batching=Batching(max_batch_size=4, on_item_error="fail_batch")) as engine:
            got = await outcomes(engine, *(call(xs=x) for x in (1, 0, 2, 4)))
            alone = await outcome(engine, call(xs=0))
        assert [type(one) for one in got] == [HandlerError] * 4
        assert "ZeroDivisionError for 4 items together" in str(got[0])
        assert isinstance(alone, ZeroDivisionError)
        assert len(runs) == 2

    run(scenario())


def test_isolation_does_not_run_those_who_left_meanwhile(run: Run) -> None:
    async def scenario() -> None:
        gate, runs = Gate(), []

        def predict(xs: list[int]) -> list[float]:
            runs.append(list(xs))
            if len(runs) == 1:
                gate.pass_through()
            return [1 / x for x in xs]

        async with serving(predict, batching=Batching(max_batch_size=4)) as engine:
            made = [call(xs=x) for x in (1, 0, 2, 4)]
            waiting = asyncio.gather(*(outcome(engine, one) for one in made))
            await gate.entered()
            made[3].leave()
            gate.open()
            got = await waiting
        assert got[0] == 1.0
        assert isinstance(got[1], ZeroDivisionError)
        assert got[2] == 0.5
        assert isinstance(got[3], CallerGone)
        assert all(4 not in ran for ran in runs[1:])

    run(scenario())


def test_a_caller_who_leaves_while_queued_is_never_computed_and_frees_its_place(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=1), max_queue=2) as engine:
            running = asyncio.create_task(outcome(engine, call(xs="gate")))
            await gate.entered()
            left, stays = call(xs="left"), call(xs="stays")
            engine.submit(left)
            engine.submit(stays)
            with pytest.raises(QueueFull):
                engine.submit(call(xs="refused"))
            left.leave()
            assert engine.num_queued == 1
            engine.submit(third := call(xs="third"))
            gate.open()
            assert await running == "gategate"
            assert await stays.result() == "staysstays"
            assert await third.result() == "thirdthird"
        assert model.batches == [["gate"], ["stays"], ["third"]]

    run(scenario())


@pytest.mark.parametrize(("handler", "kind"), [(lambda x: x, "plain"), (asyncio.sleep, "async")])
def test_a_call_that_was_left_before_it_came_is_ignored(run: Run, handler: Any, kind: str) -> None:
    async def scenario() -> None:
        async with serving(handler, kind) as engine:
            for ask in ("submit", "answer"):
                left = call(x=1)
                left.leave()
                if ask == "submit":
                    engine.submit(left)
                assert isinstance(await outcome(engine, left), CallerGone)
                assert (engine.num_queued, engine.num_running) == (0, 0)

    run(scenario())


def test_cancelling_the_task_that_waits_is_leaving(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=1)) as engine:
            running = asyncio.create_task(outcome(engine, call(xs="gate")))
            await gate.entered()
            queued = call(xs="queued")
            task = asyncio.create_task(engine.answer(queued))
            await settled(lambda: engine.num_queued == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert queued.context.cancelled()
            assert engine.num_queued == 0
            gate.open()
            await running
        assert model.batches == [["gate"]]

    run(scenario())


@pytest.mark.parametrize("how", ["leave", "drain", "deadline"])
def test_a_handler_that_asks_learns_that_nobody_waits_any_more(run: Run, how: str) -> None:
    async def scenario() -> None:
        loop, began = asyncio.get_running_loop(), asyncio.Event()

        def predict(x: int, context: Context) -> int:
            loop.call_soon_threadsafe(began.set)
            until = time.monotonic() + LONG_S
            while not context.cancelled():
                assert time.monotonic() < until
                time.sleep(0.001)
            return x

        async with serving(predict, context="context") as engine:
            made = call(0.2 if how == "deadline" else LONG_S, x=1)
            engine.submit(made)
            await began.wait()
            if how == "leave":
                made.leave()
            elif how == "drain":
                await engine.drain(0)
            await settled(lambda: engine.num_running == 0)

    run(scenario())


def test_out_of_memory_halves_once_with_the_first_runs_memory_given_back(run: Run) -> None:
    async def scenario() -> None:
        held: list[weakref.ref[Activations]] = []
        alive_at_start = []

        def predict(xs: list[int]) -> list[int]:
            alive_at_start.append(sum(ref() is not None for ref in held))
            activations = Activations()
            held.append(weakref.ref(activations))
            if len(xs) > 2:
                raise MemoryError("no room")
            return xs

        async with serving(predict, batching=Batching(max_batch_size=4)) as engine:
            assert await outcomes(engine, *(call(xs=x) for x in range(4))) == [0, 1, 2, 3]
        assert alive_at_start == [0, 0, 0]

    run(scenario())


class Activations:
    """What a run of a model holds while it computes."""


def test_a_deadline_that_passes_in_the_queue_is_answered_at_once_and_not_computed(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=1)) as engine:
            running = asyncio.create_task(outcome(engine, call(xs="gate")))
            await gate.entered()
            late = await outcome(engine, call(0.01, xs="late"))
            assert isinstance(late, DeadlineExceeded)
            assert "in the queue" in str(late)
            assert engine.num_queued == 0
            gate.open()
            await running
            expired = await outcome(engine, call(-1.0, xs="expired"))
            assert isinstance(expired, DeadlineExceeded)
        assert model.batches == [["gate"]]

    run(scenario())


def test_a_deadline_that_passes_while_running_keeps_the_slot_until_the_handler_ends(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=2)) as engine:
            mate = asyncio.create_task(outcome(engine, call(xs="gate")))
            blocked = call(0.2, xs="b")
            error = await outcome(engine, blocked)
            assert isinstance(error, DeadlineExceeded)
            assert "while it was computed" in str(error)
            assert blocked.context.cancelled()
            assert engine.num_running == 2
            gate.open()
            assert await mate == "gategate"
            assert model.batches == [["b", "gate"]]
            assert engine.num_running == 0

    run(scenario())


def test_four_hundred_at_once_on_a_blocked_model_with_a_queue_of_a_hundred(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=8), max_queue=100) as engine:
            running = asyncio.create_task(outcome(engine, call(xs="gate")))
            await gate.entered()
            waiting = [asyncio.create_task(outcome(engine, call(xs=x))) for x in range(400)]
            await settled(lambda: sum(task.done() for task in waiting) == 300)
            refused = [task.result() for task in waiting if task.done()]
            assert all(isinstance(one, QueueFull) for one in refused)
            assert all(one.retry_after_s >= 1.0 and one.retry_after_s == int(one.retry_after_s) for one in refused)
            gate.open()
            await running
            assert [await task for task in waiting[:100]] == [2 * x for x in range(100)]

    run(scenario())


def test_a_queue_of_nothing_still_serves_what_can_run_at_once(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=2), max_queue=0) as engine:
            running = asyncio.gather(*(outcome(engine, call(xs="gate")) for _ in range(2)))
            await gate.entered()
            assert isinstance(await outcome(engine, call(xs=1)), QueueFull)
            gate.open()
            assert await running == ["gategate"] * 2

    run(scenario())


def test_retry_after_is_the_time_the_queue_will_take(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=4), max_queue=8) as engine:
            for _ in range(5):
                engine.latency.observe(4, 10.0)  # type: ignore[attr-defined]
            running = asyncio.create_task(outcome(engine, call(xs="gate")))
            await gate.entered()
            for x in range(8):
                engine.submit(call(xs=x))
            with pytest.raises(QueueFull) as refused:
                engine.submit(call(xs=9))
            # one batch runs (about 6 s), two full ones wait (20 s), and a ninth item would make a third
            assert 25.0 <= refused.value.retry_after_s <= 36.0
            gate.open()
            await running

    run(scenario())


def test_higher_priority_leaves_the_queue_first(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=2, priorities=3)) as engine:
            running = asyncio.create_task(outcome(engine, call(xs="gate")))
            await gate.entered()
            waiting = [
                asyncio.create_task(outcome(engine, call(xs=name, priority=level)))
                for name, level in [("a3", 3), ("b2", 2), ("c3", 3), ("d1", 1), ("e1", 1)]
            ]
            await settled(lambda: engine.num_queued == 5)
            gate.open()
            await asyncio.gather(running, *waiting)
        assert model.batches == [["gate"], ["d1", "e1"], ["b2", "a3"], ["c3"]]

    run(scenario())


def test_wait_holds_a_partial_batch_and_releases_a_full_one(run: Run) -> None:
    async def scenario() -> None:
        model = Doubler()
        async with serving(model.predict, batching=Batching(max_batch_size=3, wait_ms=30_000, idle="wait")) as engine:
            first = [asyncio.create_task(outcome(engine, call(xs=x))) for x in range(2)]
            await asyncio.sleep(0.02)
            assert model.batches == []
            assert await outcome(engine, call(xs=2)) == 4
            assert await asyncio.gather(*first) == [0, 2]
        assert model.batches == [[0, 1, 2]]

    run(scenario())


def test_wait_lets_a_partial_batch_go_when_its_time_has_come(run: Run) -> None:
    async def scenario() -> None:
        model = Doubler()
        async with serving(model.predict, batching=Batching(max_batch_size=3, wait_ms=10, idle="wait")) as engine:
            only = call(xs=1)
            assert await outcome(engine, only) == 2
            assert only.picked_at - only.queued_at >= 0.009
        assert model.batches == [[1]]

    run(scenario())


def test_two_endpoints_share_the_model_thread_in_turns(run: Run) -> None:
    async def scenario() -> None:
        gate, order = Gate(), list[str]()

        def embed(xs: list[Any]) -> list[Any]:
            if "gate" in xs:
                gate.pass_through()
            order.extend(f"embed {x}" for x in xs)
            return xs

        def count(xs: list[Any]) -> list[Any]:
            order.extend(f"count {x}" for x in xs)
            return xs

        thread, one = ModelThread(), Batching(max_batch_size=1)
        async with serving(embed, batching=one, thread=thread) as a, serving(count, batching=one, thread=thread) as b:
            running = asyncio.create_task(outcome(a, call(xs="gate")))
            await gate.entered()
            waiting = [asyncio.create_task(outcome(engine, call(xs=x))) for engine in (a, b) for x in (1, 2, 3)]
            await settled(lambda: (a.num_queued, b.num_queued) == (3, 3))
            gate.open()
            await asyncio.gather(running, *waiting)
        await thread.close()
        # b asked while the gate was shut, so it is first; from then on they alternate
        assert order == ["embed gate", "count 1", "embed 1", "count 2", "embed 2", "count 3", "embed 3"]

    run(scenario())


def test_draining_finishes_what_is_in_hand_and_takes_nothing_new(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=1)) as engine:
            running = asyncio.create_task(outcome(engine, call(xs="gate")))
            await gate.entered()
            queued = asyncio.create_task(outcome(engine, call(xs="queued")))
            await settled(lambda: engine.num_queued == 1)
            draining = asyncio.create_task(engine.drain(LONG_S))
            await asyncio.sleep(0)
            assert isinstance(await outcome(engine, call(xs="new")), Unavailable)
            gate.open()
            await draining
            assert [await running, await queued] == ["gategate", "queuedqueued"]

    run(scenario())


def test_draining_does_not_wait_for_a_gather(run: Run) -> None:
    async def scenario() -> None:
        model = Doubler()
        async with serving(model.predict, batching=Batching(max_batch_size=8, wait_ms=60_000, idle="wait")) as engine:
            waiting = asyncio.create_task(outcome(engine, call(xs=1)))
            await settled(lambda: engine.num_queued == 1)
            await asyncio.sleep(0.005)
            await engine.drain(LONG_S)
            assert await waiting == 2

    run(scenario())


def test_what_is_not_finished_within_the_grace_is_unavailable(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=1)) as engine:
            both = [asyncio.create_task(outcome(engine, call(xs=x))) for x in ("gate", "queued")]
            await gate.entered()
            await engine.drain(0.01)
            assert [type(await task) for task in both] == [Unavailable, Unavailable]
            gate.open()
            await settled(lambda: engine.num_running == 0)
        assert model.batches == [["gate"]]

    run(scenario())


def test_the_observer_hears_of_each_batch(run: Run) -> None:
    async def scenario() -> None:
        reports: list[Report] = []

        class Observer:
            def batch_done(self, report: Report) -> None:
                reports.append(report)

        def predict(xs: list[int]) -> list[int]:
            return [sum(range(20_000)) + x for x in xs]

        async with serving(predict, batching=Batching(max_batch_size=4), observer=Observer()) as engine:
            await outcomes(engine, *(call(xs=x) for x in range(4)))
            await outcome(engine, call(xs=None))
        assert [(report.num_items, report.num_runs) for report in reports] == [(4, 1), (1, 1)]
        first, failed = reports
        assert 0 < first.cpu_s <= first.exec_s * 1.5 + 0.01
        assert [size for size, _ in first.runs] == [4]
        assert (failed.runs, failed.pending) == ([], [])

    run(scenario())


def test_arrays_of_one_shape_are_stacked_and_shapes_never_mixed(run: Run) -> None:
    async def scenario() -> None:
        shapes = []

        def predict(xs: np.ndarray) -> list[float]:
            shapes.append(xs.shape)
            return [float(row.sum()) for row in xs]

        async with serving(predict, batching=Batching(max_batch_size=8), form=Stacked({"xs": np.stack})) as engine:
            inputs = [np.ones(2), np.ones(3), np.ones(2), np.ones(5)]
            assert await outcomes(engine, *(call(xs=x) for x in inputs)) == [2.0, 3.0, 2.0, 5.0]
        assert shapes == [(2, 2), (1, 3), (1, 5)]

    run(scenario())


def test_the_context_is_a_list_when_batched(run: Run) -> None:
    async def scenario() -> None:
        def predict(xs: list[int], contexts: list[Context]) -> list[str]:
            return [f"{context.request_id} {x}" for x, context in zip(xs, contexts, strict=True)]

        async with serving(predict, batching=Batching(max_batch_size=4), context="contexts") as engine:
            assert await outcomes(engine, Call({"xs": 1}, Context("a")), Call({"xs": 2}, Context("b"))) == [
                "a 1",
                "b 2",
            ]

    run(scenario())


def test_an_item_that_cannot_keep_the_promise_is_refused_only_while_others_are_in_hand(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=1, wait_ms=1, slo_ms=100)) as engine:
            for _ in range(5):
                engine.latency.observe(1, 5.0)  # type: ignore[attr-defined]
            running = asyncio.create_task(outcome(engine, call(xs="gate")))
            await gate.entered()
            refused = await outcome(engine, call(xs=1))
            assert isinstance(refused, DeadlineUnmeetable)
            assert refused.retry_after_s >= 4.0
            gate.open()
            assert await running == "gategate"
            assert await outcome(engine, call(xs=1)) == 2

    run(scenario())


def test_the_promise_drops_what_waited_too_long_and_never_what_has_begun(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Doubler(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=1, wait_ms=0, slo_ms=5)) as engine:
            running = asyncio.create_task(outcome(engine, call(xs="gate")))
            await gate.entered()
            waiting = asyncio.create_task(outcome(engine, call(xs="late")))
            await asyncio.sleep(0.02)
            gate.open()
            assert await running == "gategate", "it was late too, but had begun"
            late = await waiting
            assert isinstance(late, DeadlineUnmeetable)
            assert "slo_ms" in str(late)
        assert model.batches == [["gate"]]

    run(scenario())


@pytest.mark.parametrize(("batched", "batching"), [(True, None), (False, Batching())])
def test_work_and_batching_must_agree(batched: bool, batching: Batching | None) -> None:
    with pytest.raises(ValueError, match="batched"):
        make_engine(Work(len, "plain", batched), batching=batching, max_inputs=1, max_queue=1, thread=ModelThread())
