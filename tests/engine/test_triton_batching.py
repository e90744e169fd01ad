"""The numbered behaviours of Triton's dynamic batching, D1 to D9: whole engines in virtual time.

D8, the rate limiter, is in test_rate_limit.py and test_limiter.py, D10 in test_sequenced.py.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import numpy as np
import pytest

from faas.engine.ragged import Ragged
from faas.engine.rows import Rows
from faas.engine.work import Stacked
from faas.errors import BadInput, DeadlineExceeded, DeadlineUnmeetable, HandlerError, QueueFull
from faas.messages import Call, Context
from faas.spec import Batching, Pad, QueuePolicy

from .conftest import Run
from .rig import LONG_S, call, outcome, outcomes, serving, settled
from .virtual import EPOCH, Callers, Model, item, now, virtual, virtually, waiting


def test_d1_a_preferred_size_leaves_at_once_and_the_rest_waits_its_delay() -> None:
    async def scenario() -> None:
        model = Model()
        async with virtual(model.predict, waiting(max_batch_size=8, preferred_batch_sizes=(2, 6))) as engine:
            callers = Callers(engine)
            callers.send(item(1), item(2))
            await asyncio.sleep(0.002)
            callers.send(item(3))
            await asyncio.sleep(0.1)
            callers.send(*(item(x) for x in range(10, 17)))
            await callers.all()
        assert [(at, len(xs)) for at, xs in model.batches] == [(0.0, 2), (0.012, 1), (0.102, 6), (0.112, 1)]

    virtually(scenario())


def test_d2_without_preferred_sizes_a_full_batch_leaves_at_once_and_others_after_the_delay() -> None:
    async def scenario() -> None:
        model = Model()
        async with virtual(model.predict, waiting()) as engine:
            callers = Callers(engine)
            callers.send(*(item(x) for x in range(6)))
            await callers.all()
        assert [(at, len(xs)) for at, xs in model.batches] == [(0.0, 4), (0.01, 2)]

    virtually(scenario())


def test_d3_a_level_that_is_full_refuses_and_the_others_go_on() -> None:
    async def scenario() -> None:
        model = Model(takes_s=1.0)
        batching = waiting(max_batch_size=1, priorities=2, levels={2: QueuePolicy(max_queue=1)})
        async with virtual(model.predict, batching) as engine:
            callers = Callers(engine)
            callers.send(item("runs"))
            await asyncio.sleep(0.1)
            callers.send(item("low", 2), item("refused", 2), item("high", 1), item("high too", 1))
            answers = await callers.all()
        assert isinstance(answers["refused"][1], QueueFull)
        assert answers["refused"][0] == 0.1
        assert [xs for _, xs in model.batches] == [["runs"], ["high"], ["high too"], ["low"]]

    virtually(scenario())


def test_d3_an_item_that_waited_too_long_is_refused_when_its_time_is_up() -> None:
    async def scenario() -> None:
        model = Model(takes_s=1.0)
        batching = waiting(max_batch_size=1, queue=QueuePolicy(timeout_ms=300))
        async with virtual(model.predict, batching) as engine:
            callers = Callers(engine)
            callers.send(item("runs"))
            await asyncio.sleep(0.1)
            callers.send(item("late"))
            await asyncio.sleep(0.75)
            callers.send(item("in time"))
            answers = await callers.all()
        assert answers["late"][0] == pytest.approx(0.4, abs=0.002)
        assert isinstance(answers["late"][1], DeadlineUnmeetable)
        assert "300 ms in the queue" in str(answers["late"][1])
        assert answers["in time"][1] == "in timein time"
        assert [xs for _, xs in model.batches] == [["runs"], ["in time"]]

    virtually(scenario())


@pytest.mark.parametrize(
    ("allowed", "stated_s", "waits_s"), [(True, 0.2, 0.2), (True, 0.9, 0.3), (False, 0.2, 0.3), (True, None, 0.3)]
)
def test_d4_a_callers_time_out_only_shortens_and_only_where_allowed(
    allowed: bool, stated_s: float | None, waits_s: float
) -> None:
    async def scenario() -> None:
        model = Model(takes_s=1.0)
        policy = QueuePolicy(timeout_ms=300, allow_timeout_override=allowed)
        async with virtual(model.predict, waiting(max_batch_size=1, queue=policy)) as engine:
            callers = Callers(engine)
            callers.send(item("runs"))
            await asyncio.sleep(0.1)
            late = item("late")
            if stated_s is not None:
                late.queue_timeout_s = stated_s
            callers.send(late)
            answers = await callers.all()
        assert answers["late"][0] == pytest.approx(0.1 + waits_s, abs=0.002)
        assert isinstance(answers["late"][1], DeadlineUnmeetable)

    virtually(scenario())


def test_d4_priority_0_and_one_out_of_range_are_the_default_level() -> None:
    async def scenario() -> None:
        model = Model(takes_s=1.0)
        async with virtual(model.predict, waiting(max_batch_size=1, priorities=3, default_priority=2)) as engine:
            callers = Callers(engine)
            callers.send(item("runs"))
            await asyncio.sleep(0.1)
            callers.send(item("low", 3), item("beyond", 9), item("none", 0), item("high", 1))
            await callers.all()
        assert [xs[0] for _, xs in model.batches] == ["runs", "high", "beyond", "none", "low"]

    virtually(scenario())


def test_d5_a_delayed_item_runs_when_none_in_time_waits_at_its_level_or_above() -> None:
    async def scenario() -> None:
        model = Model(takes_s=1.0)
        delayed = QueuePolicy(timeout_ms=500, timeout_action="delay")
        batching = waiting(max_batch_size=1, priorities=2, levels={1: delayed})
        async with virtual(model.predict, batching) as engine:
            callers = Callers(engine)
            callers.send(item("runs", 1))
            await asyncio.sleep(0.1)
            callers.send(item("late", 1), item("low", 2))
            await asyncio.sleep(0.8)
            callers.send(item("young", 1))
            await asyncio.sleep(0.9)
            callers.send(item("young too", 1))
            answers = await callers.all()
        assert [xs[0] for _, xs in model.batches] == ["runs", "young", "young too", "late", "low"]
        assert answers["late"][1] == "latelate"

    virtually(scenario())


def test_d6_answers_leave_in_the_order_of_the_calls_whatever_instance_was_faster() -> None:
    async def scenario(preserve_order: bool) -> list[str]:
        left: list[str] = []

        async def predict(xs: list[str]) -> list[Any]:
            await asyncio.sleep({"slow": 1.0, "fast": 0.1}.get(xs[0], 0.2))
            return [ValueError("no") if x == "fails" else x for x in xs]

        batching = waiting(max_batch_size=1, instances=2, preserve_order=preserve_order)

        async def one(engine: Any, name: str, within_s: float) -> None:
            try:
                await engine.answer(item(name, within_s=within_s))
            except BadInput:
                pass
            except DeadlineExceeded:
                name += " too late"
            left.append(f"{name} {now()}")

        async with virtual(predict, batching) as engine:
            names = [("slow", 9.0), ("fast", 9.0), ("fails", 9.0), ("impatient", 0.6)]
            await asyncio.gather(*(one(engine, name, within_s) for name, within_s in names))
        return left

    assert virtually(scenario(False)) == ["fast 0.1", "fails 0.3", "impatient 0.5", "slow 1.0"]
    assert virtually(scenario(True)) == ["impatient too late 0.6", "slow 1.0", "fast 1.0", "fails 1.0"]


def test_d7_two_instances_halve_the_time_of_two_batches() -> None:
    async def scenario(instances: int) -> float:
        model = Model(takes_s=1.0)
        async with virtual(model.predict, waiting(instances=instances)) as engine:
            callers = Callers(engine)
            callers.send(*(item(x) for x in range(8)))
            answers = await callers.all()
        assert [answers[x][1] for x in range(8)] == [2 * x for x in range(8)]
        assert model.sizes == [4, 4]
        return max(at for at, _ in answers.values())

    assert virtually(scenario(1)) == 2.0
    assert virtually(scenario(2)) == 1.0


def test_d7_plain_handlers_have_a_thread_for_each_instance(run: Run) -> None:
    async def scenario() -> None:
        together, threads = threading.Barrier(3, timeout=LONG_S), set()

        def predict(xs: list[int]) -> list[int]:
            threads.add(threading.current_thread().name)
            together.wait()
            return xs

        async with serving(predict, batching=Batching(max_batch_size=2, instances=3, idle="now")) as engine:
            for _ in range(3):
                assert await outcomes(engine, *(call(xs=x) for x in range(6))) == list(range(6))
        assert len(threads) == 3

    run(scenario())


def test_d7_calls_that_wait_are_spread_over_the_instances_that_are_free(run: Run) -> None:
    async def scenario() -> None:
        sizes: list[int] = []

        def predict(xs: list[int]) -> list[int]:
            sizes.append(len(xs))
            if 7 in xs:
                raise RuntimeError("bad")
            return xs

        async with serving(predict, batching=Batching(max_batch_size=4, instances=2)) as engine:
            got = await outcomes(engine, *(call(xs=x) for x in range(40)))
        assert [x for x in got if isinstance(x, int)] == [x for x in range(40) if x != 7]
        assert isinstance(got[7], RuntimeError)
        assert max(sizes) == 4

    run(scenario())


def test_d9_unequal_shapes_split_batches_unless_they_may_be_padded() -> None:
    async def scenario(pad: Any) -> list[int]:
        model = Model()
        form = Stacked({"xs": np.stack}) if pad is None else Ragged(Pad.of(pad), {"xs": "numpy"})
        async with virtual(model.predict, waiting(max_batch_size=3, pad=pad), form=form) as engine:
            callers = Callers(engine)
            callers.send(item(np.ones(1)), item(np.ones(3)), item(np.ones(2)))
            answers = await callers.all()
        assert {len(key): list(answer) for key, (_, answer) in answers.items()} == {1: [2], 2: [2] * 2, 3: [2] * 3}
        return model.sizes

    assert virtually(scenario(None)) == [1, 1, 1]
    assert virtually(scenario(0)) == [3]


def test_d9_the_handler_is_told_of_lengths() -> None:
    async def scenario() -> None:
        async def predict(xs: list[list[int]], mask: Any, lengths: list[int]) -> list[Any]:
            assert mask.tolist() == [[True, False, False], [True, True, True]]
            return [[sum(x), n] for x, n in zip(xs, lengths, strict=True)]

        pad = Pad(mask="mask", lengths="lengths", answers="whole")
        form = Ragged(pad, {"xs": None, "mask": "numpy", "lengths": None})
        async with virtual(predict, waiting(max_batch_size=2, pad=pad), form=form) as engine:
            callers = Callers(engine)
            callers.send(item([5]), item([1, 2, 3]))
            answers = await callers.all()
        assert answers == {(5,): (0.0, [5, 1]), (1, 2, 3): (0.0, [6, 3])}

    virtually(scenario())


def test_d9_ragged_items_laid_end_to_end_come_with_their_counts() -> None:
    """Triton's batch inputs: each count, counts summed up with and without a zero before, the largest, and shapes."""

    def end_to_end(items: dict[str, list[Any]], length: int) -> dict[str, Any]:
        xs = items["xs"]
        counts = np.array([x.size for x in xs])
        return {
            "xs": np.concatenate([x.reshape(-1) for x in xs]),
            "counts": counts,
            "upto": np.cumsum(counts),
            "bounds": np.concatenate([[0], np.cumsum(counts)]),
            "most": np.empty(counts.max()),
            "shapes": np.concatenate([x.shape for x in xs]),
        }

    async def scenario() -> None:
        seen: list[Any] = []

        async def predict(xs: Any, counts: Any, upto: Any, bounds: Any, most: Any, shapes: Any) -> list[float]:
            seen.append([part.tolist() for part in (xs, counts, upto, bounds, shapes)] + [most.shape])
            return [xs[begin:end].sum() for begin, end in itertools.pairwise(bounds)]

        pad = Pad(collate=end_to_end, answers="whole")
        async with virtual(predict, waiting(max_batch_size=2, pad=pad), form=Ragged(pad, {"xs": "numpy"})) as engine:
            callers = Callers(engine)
            callers.send(item(np.array([5])), item(np.array([1, 2, 3])))
            answers = await callers.all()
        assert seen == [[[5, 1, 2, 3], [1, 3], [1, 4], [0, 1, 4], [1, 3], (3,)]]
        assert answers == {(5,): (0.0, 5), (1, 2, 3): (0.0, 6)}

    virtually(scenario())


def test_an_answer_of_the_wrong_length_is_named_with_what_to_do() -> None:
    async def scenario() -> None:
        async def predict(xs: list[list[int]]) -> list[Any]:
            return [[1] * 7 for _ in xs]

        async with virtual(predict, waiting(max_batch_size=2, pad=0), form=Ragged(Pad(), {"xs": None})) as engine:
            callers = Callers(engine)
            callers.send(item([5]), item([1, 2, 3]))
            answers = await callers.all()
        for _, answer in answers.values():
            assert isinstance(answer, HandlerError)
            assert 'set Pad(answers="whole")' in str(answer)

    virtually(scenario())


def test_a_call_keeps_its_own_times() -> None:
    async def scenario() -> None:
        made = Call({"xs": list(range(6))}, Context("request", clock=asyncio.get_running_loop().time))
        async with virtual(Model(0.5).predict, waiting(rows=True), form=Rows({})) as engine:
            await engine.answer(made)
        assert [round(at - EPOCH, 6) for at in (made.queued_at, made.started_at, made.ended_at)] == [0.0, 0.0, 1.0]
        assert made.batch_size == 4

    virtually(scenario())


def test_a_handler_that_blocks_past_its_time_keeps_its_place_and_the_other_instance_goes_on(run: Run) -> None:
    async def scenario() -> None:
        entered, gate = threading.Event(), threading.Event()

        def predict(xs: list[Any]) -> list[Any]:
            if "blocks" in xs:
                entered.set()
                assert gate.wait(LONG_S)
            return xs

        batching = Batching(max_batch_size=1, instances=2, idle="now")
        async with serving(predict, batching=batching) as engine:
            blocked = asyncio.create_task(outcome(engine, call(0.2, xs="blocks")))
            assert await asyncio.to_thread(entered.wait, LONG_S)
            assert isinstance(await blocked, DeadlineExceeded)
            assert await outcomes(engine, *(call(xs=x) for x in range(20))) == list(range(20))
            assert engine.num_running == 1
            gate.set()
            await settled(lambda: engine.num_running == 0)

    run(scenario())


def test_a_batch_that_everybody_left_is_cancelled_and_the_one_beside_it_is_not() -> None:
    async def scenario() -> None:
        ended: list[str] = []

        async def predict(xs: list[str]) -> list[str]:
            try:
                await asyncio.sleep(1.0)
            except asyncio.CancelledError:
                ended.append(f"{xs[0]} cancelled {now()}")
                raise
            ended.append(f"{xs[0]} {now()}")
            return xs

        async with virtual(predict, waiting(max_batch_size=1, instances=2)) as engine:
            callers, gone = Callers(engine), item("gone")
            callers.send(gone, item("stays"))
            await asyncio.sleep(0.5)
            gone.leave()
            await callers.all()
        assert ended == ["gone cancelled 0.5", "stays 1.0"]

    virtually(scenario())


def test_a_drain_waits_for_all_instances() -> None:
    async def scenario() -> None:
        async with virtual(Model(1.0).predict, waiting(max_batch_size=1, instances=2)) as engine:
            callers = Callers(engine)
            callers.send(*(item(x) for x in range(3)))
            await asyncio.sleep(0.5)
            await engine.drain(10.0)
            assert now() == 2.0
            answers = await callers.all()
        assert [answers[x][1] for x in range(3)] == [0, 2, 4]

    virtually(scenario())
