"""Exp3 over the pure rules: the checks of the specification, seeded."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest

from faas.engine.selection import exp3, weights
from faas.engine.selection.weights import Logs
from faas.spec import Selection

ERRORS = {"a": 0.50, "b": 0.45, "c": 0.40, "d": 0.35, "e": 0.20}
ROUNDS = 20_000
SET = Selection(policy="exp3")


def play(
    errors: Callable[[int], Mapping[str, float]], num_rounds: int, seed: int, names: str = "abcde"
) -> tuple[list[float], list[dict[str, float]]]:
    """Draw, err and learn; return each round's loss, and the shares before it."""
    rng = random.Random(seed)
    logs: Logs = weights.even(names)
    losses, seen = [], []
    for number in range(num_rounds):
        shares = weights.shares(logs)
        name = exp3.drawn(shares, rng.random())
        loss = float(rng.random() < errors(number)[name])
        logs = weights.changed(logs, exp3.change(name, loss, shares[name], SET.rate), SET.gamma / len(names))
        losses.append(loss)
        seen.append(shares)
    return losses, seen


def test_draws_follow_the_shares():
    shares = {"a": 0.5, "b": 0.25, "c": 0.25}
    assert [exp3.drawn(shares, point) for point in (0.0, 0.49, 0.5, 0.74, 0.75, 0.999_999)] == list("aabbcc")
    assert exp3.drawn({"a": 0.3, "b": 0.3}, 0.99) == "b"  # what rounding leaves belongs to the last


def test_a_loss_counts_by_how_seldom_it_is_seen():
    assert exp3.change("a", 0.5, 0.25, 0.1) == {"a": pytest.approx(-0.2)}
    assert exp3.change("a", 0.0, 0.01, 0.1) == {"a": 0.0}


@pytest.mark.parametrize("seed", range(3))
def test_after_1000_feedbacks_the_good_one_has_more_weight_than_the_middling_than_the_bad(seed: int):
    errors = {"good": 0.1, "mid": 0.5, "bad": 0.9}
    rng = random.Random(seed)
    logs: Logs = weights.even(errors)
    total = dict.fromkeys(errors, 0.0)
    for _ in range(1_000):
        shares = weights.shares(logs)
        name = exp3.drawn(shares, rng.random())
        loss = float(rng.random() < errors[name])
        logs = weights.changed(logs, exp3.change(name, loss, shares[name], SET.rate), SET.gamma / 3)
        total = {key: total[key] + share for key, share in weights.shares(logs).items()}
    assert logs["good"] > logs["mid"]
    assert total["good"] > total["mid"] > total["bad"]


def test_its_total_error_is_near_that_of_the_best_arm():
    losses, shares = play(lambda _: ERRORS, ROUNDS, seed=1)
    assert sum(losses) / ROUNDS <= 0.20 + 0.03
    assert sum(held["e"] for held in shares[ROUNDS // 2 :]) / (ROUNDS // 2) > 0.85


def test_it_recovers_once_a_degraded_arm_is_repaired():
    def errors(number: int) -> Mapping[str, float]:
        return {**ERRORS, "e": 0.80} if 5_000 <= number < 10_000 else ERRORS

    losses, shares = play(errors, ROUNDS, seed=4)
    recovered = next(number for number in range(10_000, ROUNDS) if shares[number]["e"] > 0.5)
    assert recovered - 10_000 <= 2_000
    assert sum(losses[12_000:]) / 8_000 <= 0.20 + 0.03
    assert sum(losses) / ROUNDS <= 0.30
