"""Exp4 over the pure rules: votes, confidence, and the checks of the specification, seeded."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest

from faas.engine.selection import exp4, weights
from faas.engine.selection.labels import label_of
from faas.engine.selection.weights import Logs
from faas.errors import HandlerError
from faas.spec import Selection

SHARES = {"a": 0.5, "b": 0.3, "c": 0.2}
SET = Selection(policy="exp4")


def test_the_answer_with_the_most_weight_wins():
    assert exp4.vote({"a": 1, "b": 2, "c": 2}, {"a": 0.4, "b": 0.35, "c": 0.25}, 3) == exp4.Vote(("b", "c"), 2 / 3)
    assert exp4.vote({"a": 1, "b": 2, "c": 2}, {"a": 0.6, "b": 0.3, "c": 0.1}, 3) == exp4.Vote(("a",), 1 / 3)
    assert exp4.vote({"c": 1, "b": 1, "a": 1}, SHARES, 3) == exp4.Vote(("a", "b", "c"), 1.0)


def test_weights_are_those_among_who_answered():
    vote = exp4.vote({"b": 1, "c": 2}, SHARES, 3)
    assert vote is not None
    assert vote.winners == ("b",)


def test_confidence_falls_by_the_share_that_is_missing():
    full = exp4.vote({"a": 1, "b": 1, "c": 2}, SHARES, 3)
    late = exp4.vote({"a": 1, "b": 1}, SHARES, 3)
    alone = exp4.vote({"a": 1}, SHARES, 3)
    assert [vote.confidence for vote in (full, late, alone) if vote] == pytest.approx([2 / 3, 2 / 3, 1 / 3])


def test_k2_of_nobody_there_is_no_vote():
    assert exp4.vote({}, SHARES, 3) is None
    assert exp4.vote({}, {}, 0) is None


def test_each_has_its_own_loss():
    losses = exp4.losses({"a": 1, "b": 2}, 1)
    assert losses == {"a": 0.0, "b": 1.0}
    assert exp4.change(losses, 0.1) == {"a": 0.0, "b": pytest.approx(-0.1)}


def test_labels_are_equal_where_their_json_is():
    assert label_of(1) == label_of(1.0)
    assert label_of({"a": 1, "b": [2.0]}) == label_of({"b": [2], "a": 1})
    assert len({label_of(value) for value in (1, 1.5, "1", True, None, [1], {"a": 1})}) == 7
    with pytest.raises(HandlerError):
        label_of(object())


def play(errors: Callable[[int], Mapping[str, float]], num_rounds: int, seed: int) -> tuple[list[float], list[Logs]]:
    """Answer 1 where right and 0 where wrong, vote, and learn from the label 1."""
    rng = random.Random(seed)
    logs: Logs = weights.even(errors(0))
    losses, seen = [], []
    for number in range(num_rounds):
        answers = {name: int(rng.random() >= error) for name, error in errors(number).items()}
        vote = exp4.vote(answers, weights.shares(logs), len(answers))
        assert vote is not None
        losses.append(float(answers[vote.winners[0]] != 1))
        change = exp4.change(exp4.losses(answers, 1), SET.rate)
        logs = weights.changed(logs, change, SET.gamma / len(answers))
        seen.append(logs)
    return losses, seen


@pytest.mark.parametrize("seed", range(3))
def test_after_1000_feedbacks_the_good_one_has_more_weight_than_the_middling_than_the_bad(seed: int):
    _, seen = play(lambda _: {"good": 0.1, "mid": 0.5, "bad": 0.9}, 1_000, seed)
    assert seen[-1]["good"] > seen[-1]["mid"] >= seen[-1]["bad"]
    means = {name: sum(logs[name] for logs in seen) for name in seen[0]}
    assert means["good"] > means["mid"] > means["bad"]


def test_its_total_error_is_near_that_of_the_best_arm():
    arms = {"a": 0.50, "b": 0.45, "c": 0.40, "d": 0.35, "e": 0.20}
    losses, _ = play(lambda _: arms, 20_000, seed=0)
    assert sum(losses) / 20_000 <= 0.20 + 0.03


def test_it_recovers_once_a_degraded_arm_is_repaired():
    arms = {"a": 0.50, "b": 0.45, "c": 0.40, "d": 0.35, "e": 0.20}

    def errors(number: int) -> Mapping[str, float]:
        return {**arms, "e": 0.80} if 5_000 <= number < 10_000 else arms

    losses, seen = play(errors, 20_000, seed=0)
    recovered = next(number for number in range(10_000, 20_000) if weights.shares(seen[number])["e"] > 0.5)
    assert recovered - 10_000 <= 2_000
    assert sum(losses[12_000:]) / 8_000 <= 0.20 + 0.03
