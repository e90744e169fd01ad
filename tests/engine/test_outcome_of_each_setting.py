"""Whatever a batching asks for, each call gets exactly one outcome, the right one, and the engine is empty after."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest

from faas.clock import monotonic
from faas.engine.ragged import Ragged
from faas.engine.rows import Rows
from faas.errors import BadInput, CallerGone, DeadlineExceeded, DeadlineUnmeetable, FaasError, HandlerError, QueueFull
from faas.messages import Call, Context, Turn
from faas.spec import Batching, Pad, QueuePolicy, Sequences

from .conftest import Run
from .rig import serving, settled
from .test_outcome_of_each import Counted

NUM_CALLS = 120
EXPECTED = (BadInput, CallerGone, DeadlineExceeded, DeadlineUnmeetable, HandlerError, QueueFull, RuntimeError)

DELAYED = QueuePolicy(timeout_ms=2, timeout_action="delay")
HURRIED = QueuePolicy(timeout_ms=4, max_queue=20)
PATIENT = QueuePolicy(timeout_ms=150, max_queue=500)

SETTINGS: dict[str, tuple[Batching, dict[str, Any]]] = {
    "instances": (Batching(max_batch_size=4, wait_ms=1, instances=3), {}),
    "order": (Batching(max_batch_size=4, wait_ms=1, instances=2, preserve_order=True), {}),
    "levels": (Batching(max_batch_size=4, wait_ms=1, priorities=3, levels={1: DELAYED, 3: HURRIED}), {}),
    "preferred": (Batching(max_batch_size=8, wait_ms=1, idle="wait", preferred_batch_sizes=(3, 5)), {}),
    "rows": (Batching(max_batch_size=6, wait_ms=1, rows=True, instances=2), {"form": Rows({"x": "numpy"})}),
    "pad": (Batching(max_batch_size=8, wait_ms=1, pad=0), {"form": Ragged(Pad(), {"x": "numpy"})}),
    "buckets": (
        Batching(max_batch_size=8, wait_ms=1, pad=0, buckets=(4, 16)),
        {"form": Ragged(Pad(), {"x": "numpy"}, (4, 16))},
    ),
    "sequences": (Batching(max_batch_size=4, wait_ms=1, sequences=Sequences(num_slots=3, idle_s=0.02)), {}),
    "all": (
        Batching(max_batch_size=4, wait_ms=1, slo_ms=5000, rows=True, instances=2, preserve_order=True, queue=PATIENT),
        {"form": Rows({"x": "numpy"})},
    ),
}


def negated(x: Any) -> Any:
    """Rows, arrays or numbers; an item whose first number is 13 is refused, and one with 17 makes the batch raise."""
    firsts = [int(np.ravel(one)[0]) for one in x]
    if 17 in firsts:
        raise RuntimeError("raised 17")
    return [ValueError("returned 13") if first == 13 else -one for first, one in zip(firsts, x, strict=True)]


async def negated_later(x: Any) -> Any:
    await asyncio.sleep(0.001)
    return negated(x)


def made(setting: str, rng: random.Random, number: int) -> Counted:
    deadline = monotonic() + (rng.random() * 0.02 if rng.random() < 0.2 else 20.0)
    turn = None
    if setting == "sequences" and rng.random() < 0.8:
        turn = Turn(rng.choice("abcde"), rng.random() < 0.4, rng.random() < 0.2)
    value: Any = rng.randint(1, 20)
    if setting in ("rows", "all", "pad", "buckets"):
        value = np.full(rng.randint(1, 15), value)
    return Counted({"x": value}, Context(str(number), deadline=deadline, sequence=turn), rng.randint(0, 4))


@pytest.mark.parametrize("asynchronous", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_each_call_gets_exactly_one_outcome(run: Run, setting: str, asynchronous: bool) -> None:
    rng = random.Random(setting)
    batching, options = SETTINGS[setting]

    async def one_caller(engine: Any, call: Call) -> Any:
        try:
            if rng.random() < 0.5:
                engine.submit(call)
                return await call.result()
            return await engine.answer(call)
        except Exception as error:
            return error

    async def scenario() -> None:
        calls, tasks = list[Counted](), []
        handler, kind = (negated_later, "async") if asynchronous else (negated, "plain")
        async with serving(handler, kind, batching, max_queue=500, **options) as engine:
            for number in range(NUM_CALLS):
                calls.append(made(setting, rng, number))
                tasks.append(asyncio.create_task(one_caller(engine, calls[-1])))
                if rng.random() < 0.2:
                    await asyncio.sleep(rng.random() * 0.003)
                if rng.random() < 0.2:
                    rng.choice(calls).leave()
                if rng.random() < 0.05:
                    rng.choice(tasks).cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            for call in calls:
                call.leave()
            await settled(lambda: (engine.num_running, engine.num_queued) == (0, 0))
        for call, outcome in zip(calls, outcomes, strict=True):
            assert call.num_outcomes == 1
            if isinstance(outcome, asyncio.CancelledError):
                continue
            value = call.kwargs["x"]
            if isinstance(outcome, BaseException):
                assert isinstance(outcome, EXPECTED)
                assert type(outcome) is not FaasError, "the engine's own fault"
            else:
                assert np.array_equal(np.ravel(outcome), np.ravel(-value))
        assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) > NUM_CALLS // 8

    run(scenario())
