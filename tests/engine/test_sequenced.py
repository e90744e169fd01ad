"""D10, Triton's sequences: whole engines, most of them in virtual time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from faas.errors import BadInput, DeadlineExceeded, QueueFull, Unavailable
from faas.messages import END, Call, Context, Turn
from faas.spec import Batching
from faas.spec import Sequences as Settings

from .conftest import Run
from .rig import events, serving
from .virtual import Callers, Model, item, virtual, virtually

FIRST, LAST, ONLY = {"start": True}, {"end": True}, {"start": True, "end": True}


def batching(**policy: Any) -> Batching:
    return Batching(max_batch_size=8, wait_ms=1, sequences=Settings(**policy))


class Sums:
    """Keeps a sum for each slot, as a handler with state would."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.sums = [0] * 8
        self.batches: list[list[tuple[str, int]]] = []
        self._takes_s = takes_s

    async def predict(self, xs: list[int], context: list[Context]) -> list[int]:
        await asyncio.sleep(self._takes_s)
        self.batches.append([(one.sequence.id, one.sequence.slot) for one in context if one.sequence is not None])
        answers = []
        for x, one in zip(xs, context, strict=True):
            assert one.sequence is not None
            before = 0 if one.sequence.start else self.sums[one.sequence.slot]
            self.sums[one.sequence.slot] = before + x
            answers.append(before + x)
        return answers


def step(name: str, x: int, **flags: Any) -> Call:
    within_s = flags.pop("within_s", 100.0)
    return item(x, turn=Turn(name, **flags), within_s=within_s)


def test_d10_sequences_go_side_by_side_and_each_in_its_order() -> None:
    async def scenario() -> None:
        model = Sums(takes_s=0.1)
        async with virtual(model.predict, batching(), context="context") as engine:
            calls = [step("a", 1, **FIRST), step("b", 100, **FIRST), step("a", 2), step("a", 3), step("b", 200, **LAST)]
            callers = Callers(engine)
            callers.send(*calls)
            answers = await callers.all()
        assert {x: answer for x, (_, answer) in answers.items()} == {1: 1, 2: 3, 3: 6, 100: 100, 200: 300}
        assert model.batches == [[("a", 0), ("b", 1)], [("a", 0), ("b", 1)], [("a", 0)]]

    virtually(scenario())


def test_d10_no_beginning_is_an_error_and_so_is_a_call_after_the_slot_was_lost() -> None:
    async def scenario() -> None:
        model = Sums()
        async with virtual(model.predict, batching(idle_s=1.0), context="context") as engine:
            with pytest.raises(BadInput, match="X-Sequence-Start: 1"):
                await engine.answer(step("a", 1))
            assert await engine.answer(step("a", 1, **FIRST)) == 1
            await asyncio.sleep(0.9)
            assert await engine.answer(step("a", 2)) == 3
            await asyncio.sleep(1.1)
            with pytest.raises(BadInput, match="idle for too long"):
                await engine.answer(step("a", 3))

    virtually(scenario())


def test_d10_a_sequence_of_one_call_and_one_without_an_id() -> None:
    async def scenario() -> None:
        model = Sums()
        async with virtual(model.predict, batching(num_slots=1), context="context") as engine:
            assert await engine.answer(step("a", 1, **ONLY)) == 1
            assert await engine.answer(step("a", 2, **ONLY)) == 2
            with pytest.raises(BadInput):
                await engine.answer(step("a", 3))
            assert [await engine.answer(item(x)) for x in (4, 5)] == [4, 5]

    virtually(scenario())


def test_d10_what_finds_no_slot_waits_for_one() -> None:
    async def scenario() -> None:
        model = Sums(takes_s=0.1)
        async with virtual(model.predict, batching(num_slots=1), context="context") as engine:
            callers = Callers(engine)
            callers.send(step("a", 1, **FIRST), step("b", 10, **FIRST), step("b", 20, **LAST), step("a", 2, **LAST))
            answers = await callers.all()
        assert answers == {1: (0.1, 1), 2: (0.2, 3), 10: (0.3, 10), 20: (0.4, 30)}

    virtually(scenario())


def test_d10_a_restart_replaces_the_old_sequence() -> None:
    async def scenario() -> None:
        model = Sums(takes_s=0.1)
        async with virtual(model.predict, batching(num_slots=1), context="context") as engine:
            callers = Callers(engine)
            callers.send(step("a", 1, **FIRST), step("a", 2), step("a", 50, **FIRST), step("a", 60))
            answers = await callers.all()
        assert {x: answer for x, (_, answer) in answers.items()} == {1: 1, 2: 3, 50: 50, 60: 110}

    virtually(scenario())


def test_d10_an_error_of_one_call_leaves_the_sequence() -> None:
    async def scenario() -> None:
        model = Sums()

        async def predict(xs: list[int], context: list[Context]) -> list[Any]:
            return [ValueError("odd") if x == 7 else x for x in await model.predict(xs, context)]

        async with virtual(predict, batching(), context="context") as engine:
            callers = Callers(engine)
            callers.send(step("a", 7, **FIRST), step("a", 1))
            answers = await callers.all()
        assert isinstance(answers[7][1], BadInput)
        assert answers[1][1] == 8

    virtually(scenario())


def test_d10_a_batch_that_raises_is_not_run_again_since_its_steps_may_have_been_taken() -> None:
    async def scenario() -> None:
        model = Sums()

        async def predict(xs: list[int], context: list[Context]) -> list[int]:
            answers = await model.predict(xs, context)
            if 7 in xs:
                raise RuntimeError("odd")
            return answers

        async with virtual(predict, batching(), context="context") as engine:
            callers = Callers(engine)
            callers.send(step("a", 1, **FIRST), step("b", 10, **FIRST))
            await callers.all()
            callers.send(step("a", 2), step("b", 7))
            await callers.all()
            callers.send(step("a", 3), step("b", 20))
            answers = await callers.all()
        assert all("odd" in str(answers[x][1]) for x in (2, 7))
        assert (answers[3][1], answers[20][1]) == (6, 37)

    virtually(scenario())


def test_d10_who_leaves_or_runs_out_of_time_while_it_waits_is_never_computed() -> None:
    async def scenario() -> None:
        model = Sums(takes_s=1.0)
        async with virtual(model.predict, batching(num_slots=1), context="context") as engine:
            callers = Callers(engine)
            gone = step("a", 4)
            callers.send(step("a", 1, **FIRST), step("a", 2, within_s=0.5), gone, step("a", 8))
            await asyncio.sleep(0.1)
            gone.leave()
            answers = await callers.all()
            await asyncio.sleep(2.0)
            assert (engine.num_queued, engine.num_running) == (0, 0)
        assert isinstance(answers[2][1], DeadlineExceeded)
        assert answers[2][0] == pytest.approx(0.5, abs=0.002)
        assert answers[8] == (2.0, 9)
        assert len(model.batches) == 2

    virtually(scenario())


def test_d10_a_first_call_that_was_never_computed_takes_what_follows_with_it() -> None:
    async def scenario() -> None:
        model = Sums(takes_s=1.0)
        async with virtual(model.predict, batching(num_slots=1), context="context") as engine:
            callers = Callers(engine)
            callers.send(step("b", 1, **ONLY))
            first = step("a", 2, **FIRST)
            callers.send(first, step("a", 4), step("c", 8, **ONLY))
            await asyncio.sleep(0.1)
            first.leave()
            answers = await callers.all()
        assert "never began" in str(answers[4][1])
        assert answers[8] == (2.0, 8)

    virtually(scenario())


def test_d10_the_backlog_is_bounded() -> None:
    async def scenario() -> None:
        async with virtual(Sums(1.0).predict, batching(num_slots=1), max_queue=2, context="context") as engine:
            callers = Callers(engine)
            callers.send(*(step(name, at, **ONLY) for at, name in enumerate("abcd")))
            answers = await callers.all()
        assert isinstance(answers[3][1], QueueFull)
        assert [answers[at][1] for at in range(3)] == [0, 1, 2]

    virtually(scenario())


def test_a_drain_finishes_what_waits_and_takes_nothing_new() -> None:
    async def scenario() -> None:
        async with virtual(Sums(1.0).predict, batching(num_slots=1), context="context") as engine:
            callers = Callers(engine)
            callers.send(step("a", 1, **FIRST), step("a", 2), step("b", 10, **FIRST))
            await asyncio.sleep(0.1)
            ending = asyncio.create_task(engine.drain(5.0))
            await asyncio.sleep(0.1)
            with pytest.raises(Unavailable):
                await engine.answer(step("a", 3))
            await ending
            answers = await callers.all()
        assert (answers[1][1], answers[2][1], answers[10][1]) == (1, 3, 10)

    virtually(scenario())


def test_a_close_ends_what_waits() -> None:
    async def scenario() -> None:
        async with virtual(Model(5.0).predict, batching(num_slots=1)) as engine:
            callers = Callers(engine)
            callers.send(step("a", 1, **FIRST), step("a", 2))
            await asyncio.sleep(0.1)
            await engine.close()
            answers = await callers.all()
        assert all(isinstance(answer, Unavailable) for _, answer in answers.values())

    virtually(scenario())


@pytest.mark.parametrize("kind", ["generator", "async_generator"])
def test_streams_of_a_sequence_follow_one_another(run: Run, kind: str) -> None:
    def count(xs: list[int], context: list[Context]) -> Iterator[list[Any]]:
        assert all(one.sequence is not None for one in context)
        for at in range(max(xs) + 1):
            yield [at if at < x else END for x in xs]

    async def count_later(xs: list[int], context: list[Context]) -> AsyncIterator[list[Any]]:
        for slots in count(xs, context):
            yield slots

    async def scenario() -> None:
        handler: Any = count if kind == "generator" else count_later
        async with serving(handler, kind, batching(num_slots=1), context="context") as engine:
            made = [
                Call({"xs": x}, Context("request", sequence=turn))
                for x, turn in ((3, Turn("a", start=True)), (2, Turn("a", end=True)), (1, Turn("b", start=True)))
            ]
            streams = [asyncio.create_task(events(engine, one)) for one in made]
            assert await asyncio.gather(*streams) == [[0, 1, 2], [0, 1], [0]]
            assert made[0].started_at <= made[0].ended_at <= made[1].started_at <= made[1].ended_at
            assert [one.batch_size for one in made] == [1, 1, 1]

    run(scenario())


def test_a_stream_that_is_left_frees_its_place_in_the_sequence(run: Run) -> None:
    async def scenario() -> None:
        ended = threading.Event()

        def forever(xs: list[int], context: list[Context]) -> Iterator[list[Any]]:
            try:
                while xs[0] == 0:
                    yield [0]
                yield [1]
            finally:
                ended.set()

        async with serving(forever, "generator", batching(num_slots=1), context="context") as engine:
            first = Call({"xs": 0}, Context("request", sequence=Turn("a", start=True)))
            engine.submit(first)
            assert await anext(first.events()) == 0
            second = Call({"xs": 1}, Context("request", sequence=Turn("a", end=True)))
            later = asyncio.create_task(events(engine, second))
            first.leave()
            assert await later == [1]
            assert ended.is_set()

    run(scenario())
