"""When a trial is taken back, and when it is not: no clock, no cluster, only counts."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy import InvalidSpec
from deploy.rollback import Counts, Decision, Limits, Trial, begin, since, step

from .properties import unhurried

FAST = ((0.05, 99), (0.1, 100), (math.inf, 100))
SLOW = ((0.05, 10), (0.1, 50), (0.5, 100), (math.inf, 100))
LIMITS = Limits(window_s=60, min_requests=50, num_breaches=3, trial_s=300)


def times(counts: Counts, factor: int) -> Counts:
    buckets = tuple((bound, count * factor) for bound, count in counts.buckets)
    return Counts(counts.num_requests * factor, counts.num_errors * factor, buckets)


def run(candidate: Counts, stable: Counts, *, looks: int, limits: Limits = LIMITS) -> list[Decision]:
    """As many looks, 10 s apart, with the same counts in each."""
    trial = begin(0, {}, {})
    decisions = []
    for i in range(1, looks + 1):
        readings = {"c": times(candidate, i)}, {"s": times(stable, i)}
        trial, decision = step(trial, 10.0 * i, *readings, limits=limits)
        decisions.append(decision)
    return decisions


def test_a_revision_that_fails_requests_is_taken_back_after_several_looks() -> None:
    decisions = run(Counts(50, 10), Counts(500, 5), looks=4)
    assert [d.verdict for d in decisions[:3]] == ["wait", "wait", "roll back"]
    assert decisions[2].reason == "error rate 20.0% against 1.0% of the stable revision"


def test_trouble_of_both_is_nobodys() -> None:
    assert {d.verdict for d in run(Counts(50, 10), Counts(500, 100), looks=10)} == {"wait"}


def test_too_few_requests_decide_nothing() -> None:
    decisions = run(Counts(1, 1), Counts(500, 0), looks=10)
    assert {d.verdict for d in decisions} == {"wait"}
    assert "of the 50 requests" in decisions[-1].reason


def test_a_few_failures_in_few_requests_convict_nobody() -> None:
    assert {d.verdict for d in run(Counts(60, 3), Counts(600, 6), looks=1)} == {"wait"}
    assert run(Counts(60, 3), Counts(600, 6), looks=1)[0].num_breaches == 0


def test_a_slow_revision_is_taken_back_by_its_p99() -> None:
    decisions = run(Counts(100, 0, SLOW), Counts(100, 0, FAST), looks=3)
    assert decisions[-1].verdict == "roll back"
    assert decisions[-1].reason == "p99 492 ms against 50 ms of the stable revision"
    few = run(Counts(50, 0, ((0.5, 50), (math.inf, 50))), Counts(50, 0, ((0.05, 50), (math.inf, 50))), looks=1)
    assert few[0].num_breaches == 0  # a p99 of fifty requests is the slowest one


def test_a_good_trial_is_promoted_when_its_time_is_over() -> None:
    decisions = run(Counts(20, 0, FAST), Counts(200, 0, FAST), looks=30)
    assert [d.verdict for d in decisions[:29]] == ["wait"] * 29
    assert decisions[29].verdict == "promote"
    assert "600 requests in 300 s" in decisions[29].reason


def test_a_trial_without_requests_is_not_promoted() -> None:
    assert run(Counts(), Counts(500, 0), looks=60)[-1].verdict == "wait"


def test_hysteresis_a_look_between_the_limits_neither_counts_nor_clears() -> None:
    trial = begin(0, {}, {})
    limits = Limits(window_s=10, min_requests=50, num_breaches=3, trial_s=1e6, error_rate_margin=0.1, clear_share=0.5)
    seen = Counts()

    def look(now: float, errors: int) -> Decision:
        nonlocal trial, seen
        seen += Counts(100, errors)
        trial, decision = step(trial, now, {"c": seen}, {"s": Counts(int(now) * 100)}, limits=limits)
        return decision

    assert look(10, 30).num_breaches == 1
    assert look(20, 30).num_breaches == 2
    between = look(30, 9)
    assert (between.num_breaches, between.reason) == (2, "within the limits, but not clearly")
    assert look(40, 1).num_breaches == 0
    assert look(50, 30).num_breaches == 1


def test_the_window_forgets() -> None:
    trial = begin(0, {}, {})
    trial, bad = step(trial, 10, {"c": Counts(100, 100)}, {"s": Counts(100)}, limits=LIMITS)
    assert bad.num_breaches == 1
    _, good = step(trial, 75, {"c": Counts(200, 100)}, {"s": Counts(200)}, limits=LIMITS)
    assert (good.candidate.num_requests, good.candidate.num_errors, good.num_breaches) == (100, 0, 0)


def test_a_revision_that_cannot_run_needs_no_counting() -> None:
    _, decision = step(begin(0, {}, {}), 1, {}, {}, limits=LIMITS, failed="ExitCode1")
    assert (decision.verdict, decision.reason) == ("roll back", "it cannot run: ExitCode1")


def test_instances_that_come_go_and_restart_are_counted_once() -> None:
    before = {"a": Counts(100, 1), "b": Counts(50), "gone": Counts(9)}
    now = {"a": Counts(120, 2), "b": Counts(5, 5), "new": Counts(7)}
    assert since(before, now) == Counts(20 + 5 + 7, 1 + 5)


def test_what_was_counted_before_the_trial_is_not_its_doing() -> None:
    trial = begin(0, {"c": Counts(1000, 900)}, {})
    _, decision = step(trial, 10, {"c": Counts(1100, 900)}, {"s": Counts(100)}, limits=LIMITS)
    assert decision.candidate.num_errors == 0


def test_quantiles_are_linear_in_a_bucket() -> None:
    counts = Counts(100, 0, ((0.1, 50), (0.2, 100), (math.inf, 100)))
    assert counts.quantile_s(0.75) == pytest.approx(0.15)
    assert counts.quantile_s(0.5) == pytest.approx(0.1)
    assert Counts(10, 0, ((0.1, 0), (math.inf, 10))).quantile_s(0.99) == 0.1
    assert math.isnan(Counts().quantile_s(0.99))


def test_sums_of_histograms_with_other_buckets_stay_sums() -> None:
    a, b = Counts(10, 0, ((0.1, 5), (math.inf, 10))), Counts(10, 0, ((0.2, 5), (math.inf, 10)))
    assert (a + b).buckets == ((0.1, 5), (0.2, 10), (math.inf, 20))


@pytest.mark.parametrize(
    "option", ["error_rate_margin", "p99_factor", "window_s", "num_breaches", "min_requests", "trial_s"]
)
def test_limits_are_checked(option: str) -> None:
    with pytest.raises(InvalidSpec, match=f"rollback.{option}"):
        Limits(**{option: -1})


@unhurried
@given(seed=st.integers(0, 10_000))
def test_equals_are_rarely_taken_back_and_much_worse_ones_always(seed: int) -> None:
    """Both fail 1 % of requests, or the candidate 20 %: sixty looks of a hundred requests."""
    draw = random.Random(seed)

    def verdict(rate: float) -> str:
        trial: Trial = begin(0, {}, {})
        ours, theirs = Counts(), Counts()
        for i in range(1, 31):
            ours += Counts(100, sum(draw.random() < rate for _ in range(100)))
            theirs += Counts(100, sum(draw.random() < 0.01 for _ in range(100)))
            trial, decision = step(trial, 10.0 * i, {"c": ours}, {"s": theirs}, limits=LIMITS)
            if decision.verdict != "wait":
                return decision.verdict
        return "wait"

    assert verdict(0.2) == "roll back"
    assert verdict(0.01) == "promote"
