"""The engine that keeps answers, around engines of each kind. C1 to C6 and CA-01 of the specification."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
import torch

from faas.engine.cached import Cached, Computation
from faas.engine.clock_cache import ClockCache
from faas.engine.packing import pack, unpack
from faas.errors import BadInput, CallerGone, DeadlineExceeded, QueueFull, Unavailable
from faas.messages import Call
from faas.spec import Batching

from .conftest import Run
from .rig import LONG_S, Gate, call, outcome, outcomes, serving, settled

SCOPE = ("function", "v1", "/")


@contextlib.asynccontextmanager
async def keeping(
    handler: Callable[..., Any],
    kind: str = "plain",
    batching: Batching | None = None,
    *,
    max_bytes: int = 1_000_000,
    cache: ClockCache[Computation] | None = None,
    scope: tuple[str, ...] = SCOPE,
    **options: Any,
) -> AsyncIterator[tuple[Cached, ClockCache[Computation]]]:
    """A cache around an engine over `handler`."""
    held: ClockCache[Computation] = cache if cache is not None else ClockCache(max_bytes)
    async with serving(handler, kind, batching, **options) as inner:
        engine = Cached(inner, held, scope)
        await engine.start()
        try:
            yield engine, held
        finally:
            await engine.close()
            assert not held._under_way
            assert not engine._computation_of


class Counted:
    """A handler that tells what it was called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def plain(self, x: Any) -> Any:
        self.calls.append(x)
        return {"doubled": x * 2}

    async def on_loop(self, x: Any) -> Any:
        await asyncio.sleep(0)
        return self.plain(x)

    def batched(self, x: list[Any]) -> list[Any]:
        self.calls.extend(x)
        return [{"doubled": each * 2} for each in x]


@pytest.mark.parametrize("kind", ["plain", "async", "batched"])
def test_c1_equal_calls_are_computed_once(run: Run, kind: str) -> None:
    counted = Counted()
    handler = {"plain": counted.plain, "async": counted.on_loop, "batched": counted.batched}[kind]
    batching = Batching(max_batch_size=8) if kind == "batched" else None

    async def scenario() -> None:
        async with keeping(handler, "async" if kind == "async" else "plain", batching) as (engine, cache):
            calls = [call(x=number % 2) for number in range(100)]
            assert await outcomes(engine, *calls) == [{"doubled": number % 2 * 2} for number in range(100)]
            assert sorted(counted.calls) == [0, 1]
            assert (cache.num_misses, cache.num_hits) == (2, 98)
            assert [made.notes for made in calls[:3]] == [{"cache": "miss"}, {"cache": "miss"}, {"cache": "hit"}]

    run(scenario())


def test_c2_a_hit_waits_for_nothing(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()

        def predict(x: int) -> int:
            if x == 1:
                gate.pass_through()
            return x

        async with keeping(predict, max_queue=0) as (engine, _):
            assert await engine.answer(call(x=0)) == 0
            blocking = asyncio.ensure_future(engine.answer(call(x=1)))
            await gate.entered()
            hit = call(x=0)
            engine.submit(hit)
            assert hit.done
            assert await hit.result() == 0
            assert isinstance(await outcome(engine, call(x=2)), QueueFull)
            assert (engine.num_queued, engine.num_running) == (0, 1)
            gate.open()
            assert await blocking == 1

    run(scenario())


def test_c4_an_answer_over_the_budget_is_served_and_not_kept(run: Run) -> None:
    counted = Counted()

    async def scenario() -> None:
        async with keeping(counted.plain, max_bytes=2_000) as (engine, cache):
            for _ in range(2):
                assert await engine.answer(call(x="a" * 5_000)) == {"doubled": "a" * 10_000}
            assert len(counted.calls) == 2
            assert cache.num_bytes == 0

    run(scenario())


@pytest.mark.parametrize("how", ["raised", "returned"])
def test_c5_an_error_goes_to_all_who_wait_and_is_not_kept(run: Run, how: str) -> None:
    num_runs = 0

    def predict(xs: list[int]) -> list[Any]:
        nonlocal num_runs
        num_runs += 1
        if how == "raised":
            raise BadInput("no")
        return [BadInput("no") for _ in xs]

    async def scenario() -> None:
        async with keeping(predict, batching=Batching(max_batch_size=4)) as (engine, cache):
            got = await outcomes(engine, *(call(xs=1) for _ in range(5)))
            assert [type(error) for error in got] == [BadInput] * 5
            assert num_runs == 1
            assert isinstance(await outcome(engine, call(xs=1)), BadInput)
            assert num_runs == 2
            assert len(cache) == 0

    run(scenario())


def test_ca_01_hits_and_misses_of_one_batch_are_paired_rightly(run: Run) -> None:
    counted = Counted()

    async def scenario() -> None:
        async with keeping(counted.batched, batching=Batching(max_batch_size=4, wait_ms=50)) as (engine, _):
            await outcomes(engine, call(x=1), call(x=3))
            counted.calls.clear()
            got = await outcomes(engine, *(call(x=number) for number in (1, 2, 3, 4)))
            assert got == [{"doubled": 2 * number} for number in (1, 2, 3, 4)]
            assert sorted(counted.calls) == [2, 4]

    run(scenario())


def test_ca_01_a_new_version_gives_no_old_answer(run: Run) -> None:
    async def scenario() -> None:
        async with (
            keeping(lambda x: "old") as (engine, cache),
            keeping(lambda x: "new", cache=cache, scope=("function", "v2", "/")) as (newer, _),
        ):
            assert await engine.answer(call(x=1)) == "old"
            assert await newer.answer(call(x=1)) == "new"
            await engine.close()
            assert len(cache) == 1
            assert await newer.answer(call(x=1)) == "new"

    run(scenario())


@pytest.mark.parametrize("value", [[[1, 2], {"a": [3]}], np.arange(3.0), torch.arange(3.0)])
def test_ca_01_to_change_an_answer_changes_no_other(run: Run, value: Any) -> None:
    def spoil(got: Any) -> None:
        got[0] = got[1]

    async def scenario() -> None:
        async with keeping(lambda x: unpack(pack(value) or b"")) as (engine, _):
            together = await outcomes(engine, call(x=1), call(x=1), call(x=1))
            later = [await engine.answer(call(x=1))]
            for got in (*together, *later):
                assert type(got) is type(value)
                assert str(got) == str(value)
                spoil(got)
                assert str(got) != str(value)
            assert str(await engine.answer(call(x=1))) == str(value)

    run(scenario())


def test_the_first_caller_may_leave(run: Run) -> None:
    async def scenario() -> None:
        gate, calls = Gate(), []

        def predict(x: int) -> int:
            calls.append(x)
            gate.pass_through()
            return x

        async with keeping(predict) as (engine, cache):
            first = asyncio.ensure_future(engine.answer(call(x=1)))
            second = asyncio.ensure_future(engine.answer(call(x=1)))
            await gate.entered()
            first.cancel()
            await asyncio.wait([first])
            gate.open()
            assert await second == 1
            assert calls == [1]
            assert len(cache) == 1

    run(scenario())


def test_an_async_handler_goes_on_for_who_is_left(run: Run) -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()

        async def predict(x: int) -> int:
            await go_on.wait()
            return x

        async with keeping(predict, "async") as (engine, _):
            first, second = (asyncio.ensure_future(engine.answer(call(x=1))) for _ in range(2))
            await settled(lambda: engine.num_running == 1)
            first.cancel()
            await asyncio.wait([first])
            assert engine.num_running == 1
            go_on.set()
            assert await second == 1

    run(scenario())


def test_what_all_have_left_is_not_computed(run: Run) -> None:
    async def scenario() -> None:
        gate, calls = Gate(), []

        def predict(x: int) -> int:
            calls.append(x)
            if x == 0:
                gate.pass_through()
            return x

        async with keeping(predict) as (engine, _):
            blocking = asyncio.ensure_future(engine.answer(call(x=0)))
            await gate.entered()
            left = [call(x=1), call(x=1)]
            for made in left:
                engine.submit(made)
            await settled(lambda: engine.num_queued == 1)
            for made in left:
                made.leave()
            await settled(lambda: engine.num_queued == 0)
            gate.open()
            await blocking
            assert await engine.answer(call(x=2)) == 2
            assert calls == [0, 2]
            for made in left:
                with pytest.raises(CallerGone):
                    await made.result()
            assert await engine.answer(call(x=1)) == 1

    run(scenario())


def test_who_has_less_time_than_the_first_fails_alone(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()

        def predict(x: int) -> int:
            gate.pass_through()
            return x

        async with keeping(predict) as (engine, _):
            first = asyncio.ensure_future(engine.answer(call(x=1)))
            await gate.entered()
            assert isinstance(await outcome(engine, call(0.02, x=1)), DeadlineExceeded)
            gate.open()
            assert await first == 1

    run(scenario())


def test_who_has_more_time_than_the_first_gets_an_answer(run: Run) -> None:
    async def scenario() -> None:
        going, calls = threading.Event(), []

        def predict(x: int) -> int:
            calls.append(x)
            assert going.wait(LONG_S)
            return x

        async with keeping(predict) as (engine, _):
            first = asyncio.ensure_future(outcome(engine, call(0.05, x=1)))
            await settled(lambda: len(calls) == 1)
            patient = call(x=1)
            second = asyncio.ensure_future(engine.answer(patient))
            assert isinstance(await first, DeadlineExceeded)
            assert not second.done()
            going.set()
            assert await second == 1
            assert patient.started_at >= patient.queued_at > 0

    run(scenario())


def test_an_answer_that_cannot_be_kept_is_served(run: Run) -> None:
    class Local:
        pass

    made = Local()

    async def scenario() -> None:
        async with keeping(lambda x: made) as (engine, cache):
            assert await outcomes(engine, call(x=1), call(x=1)) == [made, made]
            assert len(cache) == 0

    run(scenario())


class Unreadable:
    """Can be packed, and not unpacked."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise ValueError("no")


def test_nor_is_one_whose_type_cannot_be_made_again(run: Run) -> None:
    made = Unreadable()

    async def scenario() -> None:
        async with keeping(lambda x: made) as (engine, cache):
            assert await outcomes(engine, call(x=1), call(x=1)) == [made, made]
            assert len(cache) == 0
            assert await engine.answer(call(x=1)) is made
            assert await engine.answer(call(x=1)) is made

    run(scenario())


def test_an_input_without_a_digest_goes_straight_through(run: Run) -> None:
    counted = Counted()

    async def scenario() -> None:
        async with keeping(counted.plain) as (engine, cache):
            made = [call(x=2**70), call(x=2**70)]
            await outcomes(engine, *made)
            assert len(counted.calls) == 2
            assert (cache.num_hits, cache.num_misses) == (0, 0)
            assert made[0].notes is None

    run(scenario())


def test_the_times_of_who_joined_are_those_that_it_saw(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()

        def predict(x: int) -> int:
            gate.pass_through()
            return x

        async with keeping(predict) as (engine, _):
            first, joined = call(x=1), call(x=1)
            one = asyncio.ensure_future(engine.answer(first))
            await gate.entered()
            two = asyncio.ensure_future(engine.answer(joined))
            await settled(lambda: joined.queued_at > 0)
            gate.open()
            await asyncio.gather(one, two)
            assert joined.queued_at == joined.picked_at == joined.started_at <= joined.ended_at
            assert first.queued_at <= first.picked_at <= first.started_at < joined.started_at
            assert (first.batch_size, joined.batch_size) == (1, 1)
            hit = call(x=1)
            await engine.answer(hit)
            assert hit.started_at == 0.0

    run(scenario())


def test_drain_finishes_what_is_in_hand_and_takes_nothing_new(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()

        def predict(x: int) -> int:
            gate.pass_through()
            return x

        async with keeping(predict) as (engine, _):
            waiting = [asyncio.ensure_future(engine.answer(call(x=1))) for _ in range(3)]
            await gate.entered()
            draining = asyncio.ensure_future(engine.drain(LONG_S))
            await asyncio.sleep(0)
            with pytest.raises(Unavailable):
                engine.submit(call(x=1))
            gate.open()
            await draining
            assert await asyncio.gather(*waiting) == [1, 1, 1]

    run(scenario())


def test_close_fails_what_is_in_hand(run: Run) -> None:
    async def scenario() -> None:
        started = asyncio.Event()

        async def predict(x: int) -> int:
            started.set()
            await asyncio.Event().wait()
            return x

        async with keeping(predict, "async") as (engine, _):
            waiting = [asyncio.ensure_future(outcome(engine, call(x=1))) for _ in range(3)]
            await started.wait()
            await engine.close()
            assert [type(await task) for task in waiting] == [Unavailable] * 3

    run(scenario())


def test_a_call_that_is_done_is_ignored(run: Run) -> None:
    async def scenario() -> None:
        async with keeping(lambda x: x) as (engine, cache):
            left: Call = call(x=1)
            left.leave()
            engine.submit(left)
            assert (cache.num_hits, cache.num_misses) == (0, 0)

    run(scenario())


def test_a_row_of_a_batch_is_packed_without_the_others():
    rows = torch.zeros(1_000, 10)
    packed = pack(rows[3])
    assert packed is not None
    assert len(packed) < 3_000
    assert torch.equal(unpack(packed), rows[3])
    whole = pack(rows)
    assert whole is not None
    assert torch.equal(unpack(whole), rows)
