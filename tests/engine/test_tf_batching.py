"""The numbered behaviours of TensorFlow Serving's batching, B1 to B5: whole engines in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from faas.engine.batch import Shape
from faas.engine.batcher import Batcher
from faas.engine.executor import OnLoop
from faas.engine.policy import Rules
from faas.engine.ragged import Ragged
from faas.engine.rows import Rows
from faas.engine.thread import Lease
from faas.engine.work import Stacked, Work
from faas.errors import QueueFull
from faas.messages import Context
from faas.spec import Pad

from .virtual import EPOCH, Callers, Model, item, virtual, virtually, waiting


def test_b1_a_task_that_does_not_fit_closes_the_batch_and_opens_the_next() -> None:
    async def scenario() -> None:
        model = Model()
        async with virtual(model.predict, waiting(rows=True), form=Rows({})) as engine:
            callers = Callers(engine)
            callers.send(item([1, 2, 3]), item([4, 5]))
            answers = await callers.all()
        assert model.batches == [(0.0, [1, 2, 3]), (0.01, [4, 5])]
        assert answers == {(1, 2, 3): (0.0, [2, 4, 6]), (4, 5): (0.01, [8, 10])}

    virtually(scenario())


def test_b1_a_task_larger_than_the_largest_batch_is_split() -> None:
    async def scenario() -> None:
        model = Model()
        async with virtual(model.predict, waiting(rows=True), form=Rows({})) as engine:
            callers = Callers(engine)
            callers.send(item(list(range(10))))
            answers = await callers.all()
        assert model.sizes == [4, 4, 2]
        assert answers[tuple(range(10))][1] == [2 * x for x in range(10)]

    virtually(scenario())


def test_b2_a_full_queue_refuses_at_once_and_what_runs_does_not_count() -> None:
    async def scenario() -> None:
        model = Model(takes_s=1.0)
        async with virtual(model.predict, waiting(), max_queue=3) as engine:
            callers = Callers(engine)
            callers.send(*(item(x) for x in range(4)))
            await asyncio.sleep(0.5)
            assert engine.num_running == 4
            callers.send(*(item(x) for x in range(4, 9)))
            answers = await callers.all()
        refused = {x for x, (_, answer) in answers.items() if isinstance(answer, QueueFull)}
        assert refused == {7, 8}
        assert {answers[x][0] for x in refused} == {0.5}
        assert [answers[x][1] for x in range(7)] == [2 * x for x in range(7)]

    virtually(scenario())


def test_b3_a_batch_runs_when_it_is_full_or_its_first_task_has_waited() -> None:
    async def scenario() -> None:
        model = Model()
        async with virtual(model.predict, waiting()) as engine:
            callers = Callers(engine)
            callers.send(item(1))
            await asyncio.sleep(0.006)
            callers.send(item(2))
            await asyncio.sleep(0.1)
            callers.send(*(item(x) for x in range(3, 7)))
            await callers.all()
        assert model.batches == [(0.01, [1, 2]), (0.106, [3, 4, 5, 6])]

    virtually(scenario())


def test_b3_queues_that_share_a_device_take_turns() -> None:
    async def scenario() -> None:
        clock, lease, ran = asyncio.get_running_loop().time, Lease(), list[str]()

        def engine(name: str) -> Batcher:
            async def predict(xs: list[int]) -> list[int]:
                ran.append(name)
                await asyncio.sleep(1.0)
                return xs

            executor = OnLoop(Work(predict, "async", batched=True), Shape(), clock, lease)
            return Batcher([executor], Rules.of(waiting()), 100, clock=clock)

        engines = [engine("a"), engine("b")]
        callers = [Callers(one) for one in engines]
        for some in callers:
            some.send(*(item(x) for x in range(12)))
        for some in callers:
            await some.all()
        for one in engines:
            await one.close()
        assert ran == ["a", "b", "a", "b", "a", "b"]

    virtually(scenario())


def test_b4_shapes_never_mix_and_another_one_starts_a_batch() -> None:
    async def scenario() -> None:
        model = Model()
        async with virtual(model.predict, waiting(), form=Stacked({"xs": np.stack})) as engine:
            callers = Callers(engine)
            callers.send(item(np.zeros(2)), item(np.ones(2)), item(np.zeros(3)), item(np.full(2, 7.0)))
            await callers.all()
        assert [(at, [len(x) for x in xs]) for at, xs in model.batches] == [(0.0, [2, 2]), (0.0, [3]), (0.01, [2])]

    virtually(scenario())


def test_b4_element_types_never_mix() -> None:
    async def scenario() -> None:
        model = Model()
        async with virtual(model.predict, waiting(), form=Stacked({"xs": np.stack})) as engine:
            callers = Callers(engine)
            callers.send(item(np.array([1, 2])), item(np.array([3, 4])), item(np.array([0.5, 1.5])))
            answers = await callers.all()
        assert model.sizes == [2, 1]
        assert [answers[key][1].dtype for key in ((1, 2), (0.5, 1.5))] == [np.int64, np.float64]

    virtually(scenario())


def test_b4_shapes_are_padded_where_that_is_asked_for() -> None:
    async def scenario() -> None:
        model = Model()
        form = Ragged(Pad(), {"xs": "numpy"})
        async with virtual(model.predict, waiting(pad=0), form=form) as engine:
            callers = Callers(engine)
            callers.send(item(np.array([1, 2])), item(np.array([3])))
            answers = await callers.all()
        assert model.batches == [(0.01, [[1, 2], [3, 0]])]
        assert {key: list(answer) for key, (_, answer) in answers.items()} == {(1, 2): [2, 4], (3,): [6]}

    virtually(scenario())


def test_b5_the_deadline_of_a_task_goes_with_it() -> None:
    async def scenario() -> None:
        seen: list[float] = []

        async def predict(xs: list[int], context: list[Context]) -> list[int]:
            seen.extend(round(one.deadline - EPOCH, 6) for one in context)
            return xs

        async with virtual(predict, waiting(), context="context") as engine:
            callers = Callers(engine)
            callers.send(item(1, within_s=2.0), item(2, within_s=3.0))
            await callers.all()
        assert seen == [2.0, 3.0]

    virtually(scenario())


def test_b5_a_batch_nobody_waits_for_is_skipped_and_a_failing_one_fails_its_own() -> None:
    async def scenario() -> None:
        model = Model()

        async def predict(xs: list[Any]) -> list[Any]:
            if "bad" in xs:
                raise RuntimeError("bad batch")
            return await model.predict(xs)  # type: ignore[no-any-return]

        batching = waiting(max_batch_size=2, on_item_error="fail_batch")
        async with virtual(predict, batching) as engine:
            callers = Callers(engine)
            gone = [item("gone"), item("gone too")]
            callers.send(*gone)
            await asyncio.sleep(0)
            for one in gone:
                one.leave()
            callers.send(item("bad"), item("near"), item("c"), item("d"))
            answers = await callers.all()
        assert model.batches == [(0.0, ["c", "d"])]
        assert all("bad batch" in str(answers[x][1]) for x in ("bad", "near"))
        assert [answers[x][1] for x in "cd"] == ["cc", "dd"]

    virtually(scenario())
