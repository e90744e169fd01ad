"""The switch by slack, over the pure rule, in simulated time. S1, S2, S3 and S5 of the specification."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from faas.engine.selection.slack import HOLD_S, Outlook, Switch

SLO_S = 0.1
MOST = 32


@dataclass
class Variant:
    """Takes alpha * b + beta seconds for a batch of b, one variant's batch at a time."""

    alpha_s: float
    beta_s: float
    queue: list[float] = field(default_factory=list)

    def seconds(self, size: int) -> float:
        return self.alpha_s * size + self.beta_s if size else 0.0

    def largest_within(self, seconds: float) -> int:
        return max(1, min(MOST, int((seconds - self.beta_s) / self.alpha_s)))

    @property
    def target(self) -> int:
        return self.largest_within(SLO_S / 2)

    @property
    def capacity(self) -> float:
        return self.target / self.seconds(self.target)

    def pending_s(self, num_more: int = 0) -> float:
        full, rest = divmod(len(self.queue) + num_more, self.target)
        return full * self.seconds(self.target) + self.seconds(rest)


@dataclass(frozen=True)
class Answer:
    """When a call came, at which level it was answered, and how long that took; infinity for one that was refused."""

    at: float
    level: int
    took_s: float


def simulate(
    variants: list[Variant], rate: Callable[[float], float], until_s: float, seed: int = 1
) -> tuple[list[Answer], Switch]:
    """Poisson arrivals at `rate(now)`, chosen for by a switch, computed oldest first by one executor.

    A call that would be late when its batch starts is refused, as the batcher does.
    """
    rng, switch = random.Random(seed), Switch(len(variants))
    events: list[tuple[float, int]] = [(rng.expovariate(rate(0.0)), 0)]
    answers: list[Answer] = []
    busy_until = 0.0
    while events:
        now, is_end = heapq.heappop(events)
        if not is_end:
            after = now + rng.expovariate(rate(now))
            if after < until_s:
                heapq.heappush(events, (after, 0))
            left_s = max(0.0, busy_until - now)
            pending = [variant.pending_s() for variant in variants]
            outlooks = [
                Outlook(left_s + sum(pending) - own + variant.pending_s(1), variant.seconds(1), variant.capacity)
                for own, variant in zip(pending, variants, strict=True)
            ]
            variants[switch.choose(outlooks, SLO_S, now)].queue.append(now)
        if now < busy_until:
            continue
        for level, variant in sorted(enumerate(variants), key=lambda held: held[1].queue[:1] or [math.inf]):
            target = variant.target
            while variant.queue and now + variant.seconds(min(target, len(variant.queue))) > variant.queue[0] + SLO_S:
                answers.append(Answer(variant.queue.pop(0), level, math.inf))
            batch, variant.queue = variant.queue[:target], variant.queue[target:]
            if batch:
                busy_until = now + variant.seconds(len(batch))
                answers += [Answer(came, level, busy_until - came) for came in batch]
                heapq.heappush(events, (busy_until, 1))
                break
    return answers, switch


def in_time(answers: list[Answer]) -> float:
    return sum(answer.took_s <= SLO_S for answer in answers) / len(answers)


def between(answers: list[Answer], start_s: float, end_s: float) -> list[Answer]:
    return [answer for answer in answers if start_s <= answer.at < end_s]


def pair() -> list[Variant]:
    return [Variant(0.005, 0.005), Variant(0.001, 0.002)]  # about 180 and 900 calls a second within the promise


@pytest.mark.parametrize("seed", range(3))
def test_s1_at_low_load_the_most_accurate_variant_answers_all(seed: int):
    answers, switch = simulate(pair(), lambda now: 40.0, 30.0, seed)
    assert {answer.level for answer in answers} == {0}
    assert in_time(answers) >= 0.99
    assert switch.num_switches == 0


@pytest.mark.parametrize("seed", range(3))
def test_s2_a_step_of_three_times_is_taken_by_the_fast_variant_within_a_second(seed: int):
    answers, _ = simulate(pair(), lambda now: 300.0 if now >= 5.0 else 100.0, 15.0, seed)
    assert {answer.level for answer in between(answers, 6.0, 15.0)} == {1}
    assert in_time(between(answers, 5.0, 6.0)) >= 0.99
    assert in_time(between(answers, 6.0, 15.0)) >= 0.99


@pytest.mark.parametrize("seed", range(3))
def test_s3_after_the_step_it_is_back_and_does_not_flap(seed: int):
    answers, switch = simulate(pair(), lambda now: 300.0 if 5.0 <= now < 12.0 else 80.0, 30.0, seed)
    back = between(answers, 12.0 + HOLD_S + 3.0, 30.0)
    assert {answer.level for answer in back} == {0}
    assert in_time(answers) >= 0.99
    assert switch.num_switches <= 4


def test_s3_a_steady_rate_between_the_two_does_not_make_it_flap():
    answers, switch = simulate(pair(), lambda now: 140.0, 30.0)
    assert {answer.level for answer in answers} == {0, 1}
    assert 0 < switch.num_switches <= 2 * 30.0 / HOLD_S
    assert in_time(answers) >= 0.99


@pytest.mark.parametrize("seed", range(3))
def test_s5_what_the_allowed_variants_cannot_answer_is_refused(seed: int):
    allowed = pair()[:1]  # the fast one is below the floor, so the switch never hears of it
    answers, _ = simulate(allowed, lambda now: 400.0, 20.0, seed)
    assert {answer.level for answer in answers} == {0}
    good = [answer for answer in answers if answer.took_s <= SLO_S]
    assert all(answer.took_s <= SLO_S or answer.took_s == math.inf for answer in answers)
    assert len(good) / 20.0 >= 0.8 * allowed[0].capacity


def outlooks(*finish_s: float, capacity: float = 100.0) -> list[Outlook]:
    return [Outlook(finish, min(finish, 0.05), capacity) for finish in finish_s]


def test_a_call_with_less_time_than_others_is_answered_faster_by_itself():
    switch = Switch(2)
    held = [Outlook(0.05, 0.05, 100.0), Outlook(0.01, 0.01, 1_000.0)]
    assert switch.choose(held, 0.02, now=1.0) == 1
    assert switch.level == 0
    assert switch.choose(held, 0.10, now=1.1) == 0


def test_a_queue_that_is_too_long_moves_the_level():
    switch = Switch(3)
    assert switch.choose(outlooks(0.2, 0.15, 0.08), 0.1, now=1.0) == 2
    assert switch.level == 2


def test_a_rate_that_is_surely_too_high_moves_the_level_before_the_queue_does():
    switch, held = Switch(2), outlooks(0.01, 0.01, capacity=100.0)
    levels = [switch.choose(held, 0.1, now=1.0 + number / 200) for number in range(200)]
    assert levels == sorted(levels)
    assert 0 < levels.count(0) < 100


def test_where_nothing_fits_the_one_that_is_done_first_is_tried():
    switch = Switch(3)
    assert switch.choose(outlooks(0.3, 0.2, 0.25), 0.1, now=1.0) == 1


def test_what_is_unknown_is_tried():
    switch = Switch(2)
    unknown = [Outlook(0.0, 0.0, math.inf)] * 2
    assert [switch.choose(unknown, 0.1, now=1.0 + number / 1_000) for number in range(50)] == [0] * 50


def test_it_rises_one_level_at_a_time_and_not_before_it_has_fitted_for_a_while():
    switch = Switch(3, hold_s=2.0)
    held = outlooks(0.05, 0.04, 0.03)
    switch.choose(outlooks(0.2, 0.15, 0.08), 0.1, now=0.0)
    levels = []
    for step in range(1, 60):
        switch.choose(held, 0.1, now=step * 0.1)
        levels.append(switch.level)
    assert sorted(set(levels)) == [0, 1, 2]
    assert levels == sorted(levels, reverse=True)
    assert levels.count(2) >= 19
    assert levels.count(1) >= 19


def test_the_first_call_after_a_quiet_time_finds_it_risen():
    switch = Switch(2, hold_s=2.0)
    switch.choose(outlooks(0.2, 0.05), 0.1, now=0.0)
    assert switch.level == 1
    assert switch.choose(outlooks(0.05, 0.01), 0.1, now=60.0) == 0
