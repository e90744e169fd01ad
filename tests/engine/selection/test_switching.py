"""The engine that switches by slack: what it tells the rule, and what becomes of the call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from faas.engine.batcher import Batcher
from faas.engine.selection.assembly import _prediction
from faas.engine.selection.several import Candidate, Counts
from faas.engine.selection.slack import Outlook, Switch
from faas.engine.selection.switching import Prediction, Switching
from faas.errors import DeadlineUnmeetable
from faas.messages import Call, Context
from faas.spec import Batching

from ..conftest import Run
from ..rig import FakeClock
from ..virtual import Callers, item, virtual, virtually

SLO_S = 0.1


class Fake:
    """An engine, its latency model and its backlog in one, with fixed figures."""

    def __init__(self, alpha_s: float, beta_s: float, num_queued: int = 0) -> None:
        self.alpha_s, self.beta_s, self.num_queued = alpha_s, beta_s, num_queued
        self.num_running = 0
        self.is_confident, self.largest_run = True, 32
        self.refuses = False
        self.lived: list[str] = []

    def seconds(self, size: int) -> float:
        return self.alpha_s * size + self.beta_s if size else 0.0

    at_most = seconds

    def largest_within(self, seconds: float, most: int) -> int:
        return max([size for size in range(1, most + 1) if self.seconds(size) <= seconds], default=1)

    def pending_s(self, num_more: int) -> float:
        return self.seconds(self.num_queued + num_more)

    def submit(self, call: Call) -> None:
        if self.refuses:
            raise DeadlineUnmeetable("no")
        call.finish(self)

    async def start(self) -> None:
        self.lived.append("start")

    async def drain(self, grace_s: float) -> None:
        self.lived.append("drain")

    async def close(self) -> None:
        self.lived.append("close")


class Told(Switch):
    """Keeps what it was asked."""

    def choose(self, outlooks: Any, slack_s: float, now: float) -> int:
        self.asked = (list(outlooks), slack_s, now)
        return super().choose(outlooks, slack_s, now)


def switching(large: Fake, small: Fake) -> tuple[Switching, Told, FakeClock]:
    switch, clock = Told(2), FakeClock()
    candidates = [Candidate("large", large), Candidate("small", small)]  # type: ignore[arg-type]
    made = Switching(
        candidates,
        [Prediction(each, each.pending_s, lambda: 32) for each in (large, small)],
        Counts(("large", "small")),
        slo_s=SLO_S,
        switch=switch,
        clock=clock,
    )
    return made, switch, clock


def call(clock: FakeClock, timeout_s: float = 60.0) -> Call:
    return Call({}, Context("r", deadline=clock.now + timeout_s, clock=clock))


def test_a_call_waits_for_what_all_variants_have_in_hand(run: Run) -> None:
    async def scenario() -> None:
        large, small = Fake(0.010, 0.010, num_queued=1), Fake(0.001, 0.002, num_queued=8)
        engine, switch, clock = switching(large, small)
        assert await engine.answer(call(clock)) is large
        outlooks, slack_s, now = switch.asked
        assert outlooks[0] == Outlook(pytest.approx(0.030 + 0.010), 0.020, pytest.approx(4 / 0.050))
        assert outlooks[1] == Outlook(pytest.approx(0.020 + 0.011), 0.003, pytest.approx(32 / 0.034))
        assert (slack_s, now) == (SLO_S, clock.now)

    run(scenario())


def test_s4_the_call_says_who_answered(run: Run) -> None:
    async def scenario() -> None:
        large, small = Fake(0.010, 0.010), Fake(0.001, 0.002)
        engine, _, clock = switching(large, small)
        patient, hasty = call(clock), call(clock, 0.025)
        assert await engine.answer(patient) is large
        assert await engine.answer(hasty) is small
        assert (patient.notes, hasty.notes) == ({"variant": "large"}, {"variant": "small"})
        assert engine._counts.variants == {"large": 1, "small": 1}

    run(scenario())


def test_s5_where_nothing_fits_the_fastest_one_refuses(run: Run) -> None:
    async def scenario() -> None:
        large, small = Fake(0.010, 0.010, num_queued=50), Fake(0.001, 0.002)
        large.refuses = small.refuses = True
        engine, _, clock = switching(large, small)
        with pytest.raises(DeadlineUnmeetable):
            await engine.answer(call(clock))
        assert engine.num_queued == 50

    run(scenario())


class Sized:
    """Doubles numbers, in so many seconds for each; `sizes` are those of its batches."""

    def __init__(self, alpha_s: float) -> None:
        self.sizes: list[int] = []
        self._alpha_s = alpha_s

    async def predict(self, xs: list[int]) -> list[int]:
        self.sizes.append(len(xs))
        await asyncio.sleep(self._alpha_s * len(xs))
        return [2 * x for x in xs]


def test_s2_a_burst_on_variants_of_which_nothing_is_known_does_not_bet_on_the_slow_one() -> None:
    batching = Batching(max_batch_size=8, wait_ms=0, slo_ms=300)

    async def scenario() -> None:
        large, small = Sized(0.1), Sized(0.001)
        batchers: list[Batcher] = []
        async with (
            virtual(large.predict, batching, batchers=batchers) as slow,
            virtual(small.predict, batching, batchers=batchers) as fast,
        ):
            engine = Switching(
                [Candidate("large", slow), Candidate("small", fast)],
                [_prediction(batcher) for batcher in batchers],
                Counts(("large", "small")),
                slo_s=0.3,
                clock=asyncio.get_running_loop().time,
            )
            callers = Callers(engine)
            callers.send(*(item(x) for x in range(20)))
            answers = await callers.all()
            assert {x: answer for x, (_, answer) in answers.items()} == {x: 2 * x for x in range(20)}
            assert max(told_at for told_at, _ in answers.values()) <= 0.3
            assert (large.sizes, sum(small.sizes)) == ([1], 19)
            for x in range(20, 28):  # calm again, one by one: the best one answers, and is known in the end
                await asyncio.sleep(0.5)
                await engine.answer(item(x))
            assert len(large.sizes) > 3

    virtually(scenario())


def test_they_start_drain_and_end_together(run: Run) -> None:
    async def scenario() -> None:
        large, small = Fake(0.010, 0.010), Fake(0.001, 0.002)
        engine, _, _ = switching(large, small)
        await engine.start()
        await engine.drain(1)
        await engine.close()
        assert large.lived == small.lived == ["start", "drain", "close"]
        assert (engine.num_queued, engine.num_running) == (0, 0)

    run(scenario())
