"""The engine that learns which variant to believe, over real engines. K1, K2 and K4 of the specification."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from faas.engine.selection.feedback import Feedback
from faas.engine.selection.learner import Learner
from faas.engine.selection.selecting import Selecting
from faas.engine.selection.several import Candidate, Counts
from faas.errors import BadInput, DeadlineExceeded, HandlerError, QueueFull, Unavailable
from faas.messages import Call, Context
from faas.spec import Batching, Selection

from ..conftest import Run
from ..rig import LONG_S, FakeClock, Gate, call, outcome, outcomes, serving, settled

EXP3 = Selection(policy="exp3")
EXP4 = Selection(policy="exp4")


@contextlib.asynccontextmanager
async def selecting(
    selection: Selection, *, points: Any = None, slo_s: float = float("inf"), max_queue: int = 1_000, **handlers: Any
) -> AsyncIterator[Selecting]:
    """Variants by name: an `async def`, a plain function, or a pair of a batched one and its batching."""
    async with contextlib.AsyncExitStack() as stack:
        candidates = []
        for name, handler in handlers.items():
            function, batching = handler if isinstance(handler, tuple) else (handler, None)
            kind = "async" if asyncio.iscoroutinefunction(function) else "plain"
            engine = await stack.enter_async_context(serving(function, kind, batching, max_queue=max_queue))
            candidates.append(Candidate(name, engine))
        draws = itertools.cycle(points or [0.0])
        made = Selecting(
            candidates,
            Learner(tuple(handlers), selection),
            Counts(tuple(handlers)),
            slo_s=slo_s,
            random=lambda: next(draws),
        )
        await made.start()
        try:
            yield made
        finally:
            await made.close()
            assert not made._tasks


def says(word: Any) -> Callable[..., Any]:
    async def predict(x: Any) -> Any:
        if isinstance(word, Exception):
            raise word
        return word

    return predict


async def never(x: Any) -> Any:
    await asyncio.Event().wait()


def request(request_id: str, **kwargs: Any) -> Call:
    return Call(kwargs, Context(request_id))


@pytest.mark.parametrize("default", [{}, {"default": "none"}])
def test_exp3_asks_the_one_it_draws(run: Run, default: dict[str, Any]) -> None:
    async def scenario() -> None:
        selection = Selection(policy="exp3", **default)
        async with selecting(selection, points=[0.1, 0.9], a=says("a"), b=says("b")) as engine:
            calls = [call(x=1) for _ in range(4)]
            assert [await engine.answer(made) for made in calls] == ["a", "b", "a", "b"]
            assert [made.notes for made in calls[:2]] == [{"variant": "a"}, {"variant": "b"}]
            assert all(made.started_at and made.batch_size == 1 for made in calls)
            assert engine._counts.variants == {"a": 2, "b": 2}

    run(scenario())


def test_exp3_learns_from_feedback_by_the_id_of_the_call(run: Run) -> None:
    async def scenario() -> None:
        async with selecting(EXP3, points=[0.1], a=says("a"), b=says("b")) as engine:
            await engine.answer(request("r1", x=1))
            engine.learner.learn(Feedback(request_id="r1", loss=1.0), "")
            assert engine.learner.shares("")["a"] < 0.5

    run(scenario())


def test_an_error_of_the_variant_is_the_callers(run: Run) -> None:
    async def scenario() -> None:
        for selection in (EXP3, Selection(policy="exp3", default="none"), EXP4, Selection(policy="exp4", default="x")):
            async with selecting(selection, a=says(BadInput("no")), b=says(BadInput("no"))) as engine:
                made = call(x=1)
                assert isinstance(await outcome(engine, made), BadInput)
                assert "default" not in (made.notes or {})

    run(scenario())


def test_exp4_asks_all_and_takes_the_answer_with_the_most_weight(run: Run) -> None:
    async def scenario() -> None:
        async with selecting(EXP4, a=says("cat"), b=says("dog"), c=says("dog")) as engine:
            made = request("r1", x=1)
            assert await engine.answer(made) == "dog"
            assert made.notes == {"confidence": "0.667", "variant": "b,c"}
            for _ in range(20):
                await engine.answer(request("r", x=1))
                engine.learner.learn(Feedback(request_id="r", label="cat"), "")
            made = call(x=1)
            assert await engine.answer(made) == "cat"
            assert made.notes == {"confidence": "0.333", "variant": "a"}

    run(scenario())


def test_exp4_gives_each_variant_an_input_of_its_own(run: Run) -> None:
    async def takes(x: dict[str, int]) -> int:
        return x.pop("n")

    def takes_too(x: dict[str, int]) -> int:
        return x.pop("n")

    async def scenario() -> None:
        async with selecting(EXP4, a=takes, b=takes_too, c=takes) as engine:
            made = call(x={"n": 5})
            assert await engine.answer(made) == 5
            assert made.notes is not None
            assert made.notes["confidence"] == "1"
            assert made.kwargs == {"x": {"n": 5}}

    run(scenario())


def test_exp4_is_not_sure_where_too_few_agree(run: Run) -> None:
    async def scenario() -> None:
        default = {"label": ["unsure"]}
        selection = Selection(policy="exp4", default=default, min_confidence=0.6)
        async with selecting(selection, a=says("cat"), b=says("dog"), c=says("cow")) as engine:
            made = call(x=1)
            got = await engine.answer(made)
            assert got == default
            assert made.notes == {"confidence": "0.333", "default": "confidence"}
            got["label"].append("spoiled")
            assert await engine.answer(call(x=1)) == {"label": ["unsure"]}
            assert engine._counts.defaults == {"confidence": 2}

    run(scenario())


def test_k1_at_the_deadline_what_has_arrived_is_combined(run: Run) -> None:
    async def scenario() -> None:
        async with selecting(EXP4, a=says("cat"), b=says("cat"), late=never) as engine:
            made = call(0.05, x=1)
            assert await engine.answer(made) == "cat"
            assert made.notes == {"confidence": "0.667", "variant": "a,b"}
            await settled(lambda: engine.num_running == 0)  # the straggler was left

    run(scenario())


def test_k1_the_cut_comes_before_the_deadline() -> None:
    clock = FakeClock()

    def left_s(timeout_s: float, slo_s: float, after_s: float = 0.0) -> float | None:
        made = Selecting([], Learner((), EXP4), Counts(()), slo_s=slo_s, clock=clock)
        asked = Call({}, Context("r", deadline=clock.now + timeout_s))
        asked.queued_at = clock.now - after_s
        return made._time_left_s(asked)

    endless = float("inf")
    assert left_s(1.0, endless) == pytest.approx(0.995)
    assert left_s(0.02, endless) == pytest.approx(0.019)
    assert left_s(1.0, 0.2) == pytest.approx(0.195)
    assert left_s(1.0, 0.2, after_s=0.1) == pytest.approx(0.095)
    assert left_s(1.0, 0.2, after_s=0.5) == 0.0
    assert left_s(endless, endless) is None


def test_k1_the_promise_of_the_function_is_a_deadline_too(run: Run) -> None:
    async def scenario() -> None:
        async with selecting(EXP4, slo_s=0.05, a=says("cat"), late=never) as engine:
            assert await engine.answer(call(x=1)) == "cat"

    run(scenario())


def test_without_a_default_the_first_answer_after_the_cut_counts(run: Run) -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()

        async def slow(x: int) -> str:
            await go_on.wait()
            return "cat"

        async with selecting(EXP4, slo_s=0.02, a=slow, late=never) as engine:
            made = call(x=1)
            asked = asyncio.ensure_future(engine.answer(made))
            asyncio.get_running_loop().call_later(0.1, go_on.set)
            assert await asked == "cat"
            assert made.notes == {"confidence": "0.5", "variant": "a"}

    run(scenario())


@pytest.mark.parametrize("policy", ["exp3", "exp4"])
def test_k1_where_nothing_has_arrived_the_default_is_given_with_the_reason(run: Run, policy: Any) -> None:
    async def scenario() -> None:
        async with selecting(Selection(policy=policy, default=None), a=never, b=never) as engine:
            made = call(0.05, x=1)
            assert await engine.answer(made) is None
            assert made.notes is not None
            assert made.notes["default"] == "deadline"
        async with selecting(Selection(policy=policy), a=never, b=never) as engine:
            assert isinstance(await outcome(engine, call(0.05, x=1)), DeadlineExceeded)

    run(scenario())


@pytest.mark.parametrize("policy", ["exp3", "exp4"])
def test_k2_without_candidates_the_default_is_given(run: Run, policy: Any) -> None:
    async def scenario() -> None:
        async with selecting(Selection(policy=policy, default="none")) as engine:
            made = call(x=1)
            assert await engine.answer(made) == "none"
            assert made.notes == {"default": "none"}

    run(scenario())


def test_k4_what_is_late_is_dropped_before_it_is_computed(run: Run) -> None:
    async def scenario() -> None:
        gate, seen = Gate(), []

        def predict(x: list[int]) -> list[int]:
            seen.extend(x)
            if x == [0]:
                gate.pass_through()
            return x

        batching = Batching(max_batch_size=1)
        async with selecting(Selection(policy="exp4", default=-1), a=(predict, batching)) as engine:
            blocking = asyncio.ensure_future(engine.answer(call(x=0)))
            await gate.entered()
            assert await engine.answer(call(0.05, x=1)) == -1
            gate.open()
            await blocking
            assert await engine.answer(call(x=2)) == 2
            assert seen == [0, 2]

    run(scenario())


def test_one_variant_that_fails_only_lowers_the_confidence(run: Run) -> None:
    async def scenario() -> None:
        async with selecting(EXP4, a=says("cat"), b=says(RuntimeError("no")), c=says(object())) as engine:
            made = call(x=1)
            assert await engine.answer(made) == "cat"
            assert made.notes == {"confidence": "0.333", "variant": "a"}
        async with selecting(EXP4, a=says(object()), b=says(object())) as engine:
            assert isinstance(await outcome(engine, call(x=1)), HandlerError)

    run(scenario())


def test_a_full_queue_is_no_reason_for_a_default(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()

        def predict(x: int) -> int:
            gate.pass_through()
            return x

        async with selecting(Selection(policy="exp4", default=-1), max_queue=0, a=predict) as engine:
            blocking = asyncio.ensure_future(engine.answer(call(x=0)))
            await gate.entered()
            assert isinstance(await outcome(engine, call(x=1)), QueueFull)
            gate.open()
            assert await blocking == 0

    run(scenario())


def test_who_leaves_takes_its_variants_along(run: Run) -> None:
    async def scenario() -> None:
        async with selecting(EXP4, a=never, b=never) as engine:
            task = asyncio.ensure_future(engine.answer(call(x=1)))
            await settled(lambda: engine.num_running == 2)
            task.cancel()
            await settled(lambda: engine.num_running == 0)

    run(scenario())


def test_a_call_that_is_done_is_ignored(run: Run) -> None:
    async def scenario() -> None:
        async with selecting(EXP3, a=says("a"), b=says("b")) as engine:
            left = call(x=1)
            left.leave()
            engine.submit(left)
            assert engine._counts.variants == {"a": 0, "b": 0}

    run(scenario())


def test_drain_finishes_and_close_fails_what_is_in_hand(run: Run) -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()

        async def predict(x: int) -> int:
            await go_on.wait()
            return x

        async with selecting(EXP4, a=predict, b=predict) as engine:
            waiting = asyncio.ensure_future(outcomes(engine, call(x=1), call(x=2)))
            await settled(lambda: engine.num_running == 4)
            draining = asyncio.ensure_future(engine.drain(LONG_S))
            await asyncio.sleep(0)
            with pytest.raises(Unavailable):
                engine.submit(call(x=3))
            go_on.set()
            await draining
            assert await waiting == [1, 2]
        async with selecting(EXP4, a=never, b=never) as engine:
            waiting = asyncio.ensure_future(outcomes(engine, call(x=1)))
            await settled(lambda: engine.num_running == 2)
            await engine.close()
            assert [type(error) for error in await waiting] == [Unavailable]

    run(scenario())
