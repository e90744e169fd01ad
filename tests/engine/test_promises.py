"""What a promise (`slo_ms`) and a caller's own limit do to calls, in a real engine."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from faas.engine.thread import ModelThread
from faas.errors import DeadlineExceeded, DeadlineUnmeetable
from faas.messages import Call
from faas.spec import Batching

from .conftest import Run
from .rig import LONG_S, Gate, call, outcome, outcomes, serving, settled
from .virtual import Callers, Model, item, virtual, virtually


class Recorder:
    """Returns its items; holds the batch at the gate where one of them is "gate"."""

    def __init__(self, gate: Gate) -> None:
        self.batches: list[list[Any]] = []
        self._gate = gate

    def predict(self, xs: list[Any]) -> list[Any]:
        self.batches.append(list(xs))
        if "gate" in xs:
            self._gate.pass_through()
        return xs


async def running(engine: Any, gate: Gate) -> asyncio.Task[Any]:
    """Have a batch run that holds the device until the gate is opened."""
    task = asyncio.create_task(outcome(engine, call(xs="gate")))
    await gate.entered()
    return task


def knows(engine: Any, seconds: float, *sizes: int) -> None:
    for size in sizes or (1, 2, 4, 8):
        for _ in range(3):
            engine.latency.observe(size, seconds)


def waiting(engine: Any, *calls: Call) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(outcome(engine, one)) for one in calls]


def test_b5_the_earliest_deadline_leaves_first(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Recorder(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=1, slo_ms=15_000)) as engine:
            first = await running(engine, gate)
            tasks = waiting(
                engine, call(20.0, xs="promise"), call(5.0, xs="soon"), call(9.0, xs="later"), call(20.0, xs="also")
            )
            await settled(lambda: engine.num_queued == 4)
            gate.open()
            await asyncio.gather(first, *tasks)
        assert model.batches == [["gate"], ["soon"], ["later"], ["promise"], ["also"]]

    run(scenario())


def test_b5_without_a_promise_calls_leave_as_they_came(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Recorder(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=1)) as engine:
            first = await running(engine, gate)
            tasks = waiting(engine, call(20.0, xs="a"), call(5.0, xs="b"))
            await settled(lambda: engine.num_queued == 2)
            gate.open()
            await asyncio.gather(first, *tasks)
        assert model.batches == [["gate"], ["a"], ["b"]]

    run(scenario())


@pytest.mark.parametrize(
    ("timeout_s", "slo_ms", "named"), [(LONG_S, 1000, "slo_ms"), (1.0, 15_000, "allowed for the call")]
)
def test_b5_a_call_that_cannot_be_in_time_is_refused_as_it_comes(
    run: Run, timeout_s: float, slo_ms: float, named: str
) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Recorder(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=8, slo_ms=slo_ms)) as engine:
            knows(engine, 4.0)
            first = await running(engine, gate)
            refused = await outcome(engine, call(timeout_s, xs=1))
            assert isinstance(refused, DeadlineUnmeetable)
            assert named in str(refused)
            assert 6.0 <= refused.retry_after_s <= 9.0, "what runs and one more batch"
            gate.open()
            await first

    run(scenario())


def test_b5_only_those_ahead_count_against_a_caller_in_a_hurry(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Recorder(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=1, slo_ms=15_000)) as engine:
            knows(engine, 0.5, 1)
            first = await running(engine, gate)
            behind = waiting(engine, *(call(20.0, xs=x) for x in range(10)))
            await settled(lambda: engine.num_queued == 10)
            hurried = asyncio.create_task(outcome(engine, call(3.0, xs="hurried")))
            await settled(lambda: engine.num_queued == 11)
            assert isinstance(await outcome(engine, call(0.7, xs="too late")), DeadlineUnmeetable)
            gate.open()
            assert await hurried == "hurried"
            await asyncio.gather(first, *behind)
        assert model.batches[1] == ["hurried"]

    run(scenario())


def test_b5_the_own_limit_that_passes_in_the_queue_is_a_time_out_and_not_a_refusal(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Recorder(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=4, slo_ms=15_000)) as engine:
            first = await running(engine, gate)
            assert isinstance(await outcome(engine, call(0.02, xs="late")), DeadlineExceeded)
            gate.open()
            await first
        assert model.batches == [["gate"]]

    run(scenario())


def test_a_head_that_a_full_batch_would_make_late_is_given_up_for_those_behind_it(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Recorder(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=8, slo_ms=10_000)) as engine:
            first = await running(engine, gate)
            head = asyncio.create_task(outcome(engine, call(2.0, xs="head")))
            tasks = waiting(engine, *(call(xs=x) for x in range(7)))
            await settled(lambda: engine.num_queued == 8)
            knows(engine, 4.0)  # a batch of any size: the head's 2 s are too few
            gate.open()
            given_up = await head
            assert isinstance(given_up, DeadlineUnmeetable)
            assert "the time allowed for the call" in str(given_up)
            assert await asyncio.gather(*tasks) == list(range(7))
            assert await first == "gate"
        assert model.batches == [["gate"], list(range(7))]

    run(scenario())


def test_ba_10_the_only_one_that_waits_is_run_though_it_will_be_late(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Recorder(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=8, slo_ms=2000)) as engine:
            first = await running(engine, gate)
            in_danger = asyncio.create_task(outcome(engine, call(xs="in danger")))
            await settled(lambda: engine.num_queued == 1)
            knows(engine, 4.0)
            gate.open()
            assert await in_danger == "in danger"
            await first

    run(scenario())


def test_ba_10_a_promise_that_has_passed_before_anybody_could_look_is_served_when_nothing_is_in_hand(run: Run) -> None:
    async def scenario() -> None:
        async with serving(lambda xs: xs, batching=Batching(max_batch_size=8, wait_ms=0, slo_ms=1)) as engine:
            for x in range(10):
                asyncio.get_running_loop().call_soon(time.sleep, 0.002)  # before the engine looks at what has come
                assert await outcome(engine, call(xs=x)) == x

    run(scenario())


@pytest.mark.parametrize("num", [1, 3])
def test_b5_who_waits_behind_a_blocked_batch_is_told_when_its_promise_is_over(num: int) -> None:
    async def scenario() -> None:
        model = Model(takes_s=10.0)
        async with virtual(model.predict, Batching(max_batch_size=4, wait_ms=0, slo_ms=100)) as engine:
            callers = Callers(engine)
            callers.send(item(1))
            await asyncio.sleep(0.01)
            callers.send(*(item(x) for x in range(10, 10 + num)))
            answers = await callers.all()
        assert answers[1] == (10.0, 2)
        for x in range(10, 10 + num):
            told_at, error = answers[x]
            assert isinstance(error, DeadlineUnmeetable)
            assert "longer than slo_ms" in str(error)
            assert told_at == pytest.approx(0.11, abs=0.002)
        assert model.sizes == [1]

    virtually(scenario())


def test_sizes_are_tried_by_doubling(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Recorder(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=16, slo_ms=15_000)) as engine:
            first = await running(engine, gate)
            tasks = waiting(engine, *(call(xs=x) for x in range(40)))
            await settled(lambda: engine.num_queued == 40)
            gate.open()
            await asyncio.gather(first, *tasks)
        assert [len(batch) for batch in model.batches] == [1, 2, 4, 8, 16, 10]

    run(scenario())


def test_of_several_engines_the_one_that_must_start_soonest_gets_the_device(run: Run) -> None:
    async def scenario() -> None:
        gate, thread = Gate(), ModelThread()
        model = Recorder(gate)
        none, loose, tight = Batching(), Batching(slo_ms=900), Batching(slo_ms=700)
        async with (
            serving(model.predict, batching=none, thread=thread) as a,
            serving(model.predict, batching=loose, thread=thread) as b,
            serving(model.predict, batching=tight, thread=thread) as c,
        ):
            first = await running(a, gate)
            named = ((a, "none"), (b, "loose"), (c, "tight"))
            tasks = [task for engine, x in named for task in waiting(engine, call(xs=x))]
            await settled(lambda: all(engine.num_queued for engine in (a, b, c)))
            await asyncio.sleep(0)
            gate.open()
            assert await asyncio.gather(first, *tasks) == ["gate", "none", "loose", "tight"]
        assert model.batches == [["gate"], ["tight"], ["loose"], ["none"]]
        assert await thread.close(LONG_S)

    run(scenario())


def test_those_who_cannot_be_in_time_are_told_when_the_device_is_free_though_it_is_anothers_turn(run: Run) -> None:
    async def scenario() -> None:
        gate, second, thread = Gate(), Gate(), ModelThread()
        model, other = Recorder(gate), Recorder(second)
        async with (
            serving(model.predict, batching=Batching(max_batch_size=8, slo_ms=15_000), thread=thread) as a,
            serving(other.predict, batching=Batching(), thread=thread) as b,
        ):
            first = await running(a, gate)
            hopeless = waiting(a, call(3.0, xs=1), call(3.0, xs=2))
            waits = asyncio.create_task(outcome(b, call(xs="gate")))
            await settled(lambda: a.num_queued == 2 and b.num_queued == 1)
            await asyncio.sleep(0)
            knows(a, 60.0)
            gate.open()
            await second.entered()
            assert isinstance(await hopeless[0], DeadlineUnmeetable)
            second.open()
            assert await waits == "gate"
            assert await hopeless[1] == 2, "the last one that waits may be late, but is served"
            await first
        assert await thread.close(LONG_S)

    run(scenario())


def test_what_is_padded_is_learnt_as_what_ran(run: Run) -> None:
    async def scenario() -> None:
        batching = Batching(max_batch_size=8, allowed_batch_sizes=(4, 8), slo_ms=15_000)
        async with serving(lambda xs: xs, batching=batching) as engine:
            for _ in range(10):
                assert await outcomes(engine, call(xs=1)) == [1]
            known = engine.latency  # type: ignore[attr-defined]
            assert [size for size, _, _ in known.profile()] == [4]
            assert known.at_most(1) == known.at_most(4) > 0.0

    run(scenario())


def test_b5_who_is_passed_over_by_higher_levels_is_told_when_its_promise_is_over() -> None:
    async def scenario() -> None:
        model = Model(takes_s=0.05)
        async with virtual(model.predict, Batching(max_batch_size=1, wait_ms=0, slo_ms=100, priorities=2)) as engine:
            callers = Callers(engine)
            callers.send(item(1, 1), item(2, 1), item(99, 2))
            for x in range(3, 20):
                await asyncio.sleep(0.05)
                callers.send(item(x, 1))
            answers = await callers.all()
        told_at, error = answers[99]
        assert isinstance(error, DeadlineUnmeetable)
        assert "longer than slo_ms" in str(error)
        assert told_at == pytest.approx(0.1, abs=0.002)

    virtually(scenario())


def test_b5_whose_time_is_over_behind_a_batch_that_does_not_end_is_told_then(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        model = Recorder(gate)
        async with serving(model.predict, batching=Batching(max_batch_size=8, slo_ms=50)) as engine:
            first = await running(engine, gate)
            told = await outcomes(engine, call(xs=1), call(xs=2))
            assert [type(error) for error in told] == [DeadlineUnmeetable] * 2
            assert not first.done()
            gate.open()
            assert await first == "gate"
        assert model.batches == [["gate"]]

    run(scenario())


def test_b5_the_head_is_told_when_its_last_moment_has_gone_by_and_not_when_the_device_is_free() -> None:
    async def scenario() -> None:
        model = Model(takes_s=0.04)
        async with virtual(model.predict, Batching(max_batch_size=4, wait_ms=0, slo_ms=100)) as engine:
            callers = Callers(engine)
            for x in range(3):
                callers.send(item(x))
                await asyncio.sleep(0.05)
            model.takes_s = 10.0
            callers.send(item("stuck"))
            await asyncio.sleep(0.001)
            callers.send(item("head"), item("next"))
            answers = await callers.all()
        assert answers["head"][0] == pytest.approx(0.151 + 0.0555, abs=0.002), (
            "a little more than 40 ms before it is due"
        )
        assert answers["next"][0] == pytest.approx(0.151 + 0.1, abs=0.002), "alone it is run, as long as it is not late"
        assert [type(answers[x][1]) for x in ("head", "next")] == [DeadlineUnmeetable] * 2

    virtually(scenario())
