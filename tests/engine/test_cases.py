"""Cases from the field that an engine must get right, each by its name."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from faas.engine.thread import ModelThread
from faas.engine.work import Stacked
from faas.errors import BadInput, CallerGone, DeadlineUnmeetable, SettingError
from faas.messages import END
from faas.spec import Batching

from .conftest import Run
from .rig import LONG_S, Gate, call, events, outcome, outcomes, serving
from .virtual import Callers, Model, item, virtual, virtually


@pytest.mark.parametrize("how", ["raised", "returned"])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("values", [[1, 2, "bad", 4], [1, 2, 3, 4, 5, "bad", 7, 8]])
def test_ba_01_one_bad_item_fails_alone(run: Run, values: list[Any], asynchronous: bool, how: str) -> None:
    def predict(xs: list[Any]) -> list[Any]:
        if how == "raised" and "bad" in xs:
            raise BadInput("not a number")
        return [BadInput("not a number") if x == "bad" else x * 10 for x in xs]

    async def apredict(xs: list[Any]) -> list[Any]:
        return predict(xs)

    async def scenario() -> None:
        handler: Any = apredict if asynchronous else predict
        batching = Batching(max_batch_size=len(values), wait_ms=200)
        async with serving(handler, "async" if asynchronous else "plain", batching) as engine:
            got = await outcomes(engine, *(call(xs=x) for x in values))
        for x, answer in zip(values, got, strict=True):
            if x == "bad":
                assert isinstance(answer, BadInput)
                assert str(answer) == "not a number"
            else:
                assert answer == x * 10

    run(scenario())


def test_ba_03_the_same_answer_with_batching_on_and_off(run: Run) -> None:
    def echo(x: Any, params: dict[str, Any]) -> Any:
        return {"sum": np.asarray(x).sum(axis=0).tolist(), "shape": list(np.shape(x)), **params}

    def echo_batch(x: list[Any], params: list[dict[str, Any]]) -> list[Any]:
        return [echo(*pair) for pair in zip(x, params, strict=True)]

    def sums(x: np.ndarray, params: list[dict[str, Any]]) -> list[Any]:
        assert len(x) == len(params)
        return [echo(*pair) for pair in zip(x, params, strict=True)]

    inputs: list[dict[str, Any]] = [
        {"x": np.ones(2), "params": {"id": "123", "n": 5}},
        {"x": np.ones(3), "params": {"id": "9"}},
        {"x": np.ones((3, 2)), "params": {"only": "b"}},
        {"x": np.ones(2), "params": {}},
    ]

    async def scenario() -> None:
        async with serving(echo) as engine:
            alone = await outcomes(engine, *(call(**given) for given in inputs))
        batching = Batching(max_batch_size=8)
        for handler, form in ((echo_batch, Stacked()), (sums, Stacked({"x": np.stack}))):
            async with serving(handler, batching=batching, form=form) as engine:
                assert await outcomes(engine, *(call(**given) for given in inputs)) == alone
                assert [await outcome(engine, call(**given)) for given in inputs] == alone

    run(scenario())


def test_ba_05_callers_who_drop_harm_nobody(run: Run) -> None:
    async def once(engine: Any, gates: list[Gate], ran: list[Any]) -> None:
        gates.append(gate := Gate())
        ran.clear()
        calls = [call(xs=x) for x in ("one", "two", "three", "four")]
        tasks = [asyncio.create_task(outcome(engine, one)) for one in calls]
        await asyncio.sleep(0)  # all of them are queued, and the batch has not been formed
        calls[1].leave()
        await gate.entered()
        calls[2].leave()
        gate.open()
        got = await asyncio.gather(*tasks)
        assert [got[0], got[3]] == ["ONE", "FOUR"]
        assert [type(got[1]), type(got[2])] == [CallerGone, CallerGone]
        assert ran == ["one", "three", "four"]
        assert await outcomes(engine, *(call(xs=str(x)) for x in range(100))) == [str(x) for x in range(100)]

    async def scenario() -> None:
        gates: list[Gate] = []
        ran: list[Any] = []

        def predict(xs: list[str]) -> list[str]:
            ran.extend(xs)
            if "one" in xs:
                gates[-1].pass_through()
            return [x.upper() for x in xs]

        async with serving(predict, batching=Batching(max_batch_size=4, wait_ms=1)) as engine:
            for _ in range(50):
                await once(engine, gates, ran)

    run(scenario())


def slots_at(step: int, lengths: list[Any]) -> list[Any]:
    """Streams of the lengths given; "fail" fails at its second step."""
    return [
        (RuntimeError("midway") if step == 1 else step) if length == "fail" else END if step >= length else step
        for length in lengths
    ]


@pytest.mark.parametrize("kind", ["generator", "async_generator"])
def test_ba_08_each_stream_closes_on_its_own_time(run: Run, kind: str) -> None:
    async def scenario() -> None:
        short_closed, seen = asyncio.Event(), threading.Event()

        def steps(lengths: list[Any]) -> Iterator[list[Any]]:
            for step in range(11):
                if step == 4:
                    assert seen.wait(LONG_S), "the short streams have not closed while the long one goes on"
                yield slots_at(step, lengths)

        async def asteps(lengths: list[Any]) -> AsyncIterator[list[Any]]:
            for step in range(11):
                if step == 4:
                    await asyncio.wait_for(short_closed.wait(), LONG_S)
                yield slots_at(step, lengths)

        handler: Any = steps if kind == "generator" else asteps
        async with serving(handler, kind, Batching(max_batch_size=4)) as engine:
            tasks = [asyncio.create_task(events(engine, call(lengths=length))) for length in (1, 3, "fail", 10)]
            one, three, failing = await asyncio.gather(*tasks[:3])
            assert not tasks[3].done()
            short_closed.set()
            seen.set()
            assert await tasks[3] == list(range(10))
        assert (one, three) == ([0], [0, 1, 2])
        assert failing[0] == 0
        assert isinstance(failing[1], RuntimeError)
        assert len(failing) == 2

    run(scenario())


def test_ba_10_a_largest_batch_of_one_works(run: Run) -> None:
    async def scenario() -> None:
        async with serving(lambda xs: xs, batching=Batching(max_batch_size=1)) as engine:
            assert await outcomes(engine, *(call(xs=x) for x in range(10))) == list(range(10))

    run(scenario())


def test_ba_10_a_promise_below_the_models_time_still_makes_progress(run: Run) -> None:
    """A promise of 1 ms, a model of 10 ms, a call each 2 ms: some are refused, and some are answered all along."""

    async def scenario() -> None:
        def predict(xs: list[int]) -> list[int]:
            time.sleep(0.010)
            return xs

        answered_at: list[int] = []

        async with serving(predict, batching=Batching(max_batch_size=4, wait_ms=0.5, slo_ms=1)) as engine:

            async def one(at: int) -> Any:
                got = await outcome(engine, call(xs=at))
                if got == at:
                    answered_at.append(at)
                return got

            tasks = []
            for at in range(200):
                tasks.append(asyncio.create_task(one(at)))
                await asyncio.sleep(0.002)
            got = await asyncio.gather(*tasks)
        refused = [one for one in got if isinstance(one, Exception)]
        assert all(isinstance(one, DeadlineUnmeetable) for one in refused)
        assert len(answered_at) + len(refused) == 200
        for quarter in range(4):
            assert [at for at in answered_at if at // 50 == quarter], "no progress for a quarter of the time"

    run(scenario())


def test_ba_10_a_slow_first_call_does_not_spoil_the_rest(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        seen: list[int] = []

        def predict(xs: list[int]) -> list[int]:
            if not seen:
                gate.pass_through()
            seen.append(len(xs))
            return xs

        async with serving(predict, batching=Batching(max_batch_size=4, wait_ms=5, slo_ms=1000)) as engine:
            first = asyncio.create_task(outcome(engine, call(xs=0)))
            await gate.entered()
            await asyncio.sleep(0.3)
            gate.open()
            assert await first == 0
            made = [call(xs=x) for x in range(50)]
            for at, one in enumerate(made):
                assert await outcome(engine, one) == at
        assert made[-1].picked_at - made[-1].queued_at < 0.05
        assert engine.latency.seconds(1) < 0.05  # type: ignore[attr-defined]

    run(scenario())


@pytest.mark.parametrize("idle", ["wait", "adaptive"])
def test_ba_10_a_wait_longer_than_callers_have_leaves_time_for_the_model(idle: Any) -> None:
    async def scenario() -> None:
        model = Model(takes_s=0.01)
        async with virtual(model.predict, Batching(max_batch_size=8, wait_ms=100_000, idle=idle)) as engine:
            callers = Callers(engine)
            for x in range(3):
                callers.send(item(x, within_s=2.0))
                await asyncio.sleep(3.0)
            answers = await callers.all()
        assert [answer for _, answer in answers.values()] == [0, 2, 4]

    virtually(scenario())


@pytest.mark.parametrize(
    "settings",
    [
        {"max_batch_size": 0},
        {"max_batch_size": -1},
        {"wait_ms": -1.0},
        {"wait_ms": float("nan")},
        {"slo_ms": 0},
        {"slo_ms": float("nan")},
    ],
)
def test_ba_10_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        Batching(**settings)


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


@pytest.mark.slow
def test_to_02_many_shapes_run_on_one_thread_and_memory_stays_flat(run: Run) -> None:
    async def scenario() -> None:
        threads: set[int] = set()
        rng = np.random.default_rng(0)
        with torch.no_grad():
            conv = torch.nn.Conv1d(1, 4, 9)

        def predict(xs: list[np.ndarray]) -> list[float]:
            threads.add(threading.get_native_id())
            return [float(conv(torch.from_numpy(x)).mean()) for x in xs]

        resident: list[int] = []
        thread = ModelThread()
        async with serving(predict, batching=Batching(max_batch_size=30), thread=thread) as engine:

            async def caller(num: int) -> None:
                for _ in range(num):
                    x = rng.standard_normal((1, 1, int(rng.integers(50, 1000))), dtype="float32")
                    assert isinstance(await outcome(engine, call(xs=x)), float)

            for _ in range(5):
                await asyncio.gather(*(caller(4) for _ in range(25)))
                resident.append(resident_bytes())
        await thread.close(LONG_S)
        assert len(threads) == 1
        assert threading.get_native_id() not in threads
        assert resident[-1] < 1.3 * resident[0]

    run(scenario())


@pytest.mark.parametrize(("fixed", "batching"), [
    (1, Batching(max_batch_size=1)),
    (4, Batching(max_batch_size=4, allowed_batch_sizes=(4,))),
])  # fmt: skip
def test_or_01_a_model_of_one_batch_size_gets_it_and_nothing_else(run: Run, fixed: int, batching: Batching) -> None:
    async def scenario() -> None:
        def predict(xs: np.ndarray) -> np.ndarray:
            if len(xs) != fixed:
                raise RuntimeError(f"Got {len(xs)} Expected {fixed}")
            return 2 * xs

        async with serving(predict, batching=batching, form=Stacked({"xs": np.stack})) as engine:
            got = await outcomes(engine, *(call(xs=np.full(3, x)) for x in range(3)))
            alone = await outcome(engine, call(xs=np.full(3, 7)))
        assert [one.tolist() for one in (*got, alone)] == [[2 * x] * 3 for x in (0, 1, 2, 7)]

    run(scenario())
