"""Traces against the platform's own control loop, on a clock that jumps."""

import pytest

from faas.platform.keepalive import IdleTimes
from faas.platform.simulation import Call, Outcome, simulate
from tests.platform.test_loop import description

EVERY_TEN_MINUTES = [Call(600.0 * number + 5.0, 0.5) for number in range(60)]
TEN_HOURS_S = 36_000.0


def run(calls, *, until_s, start_s=0.1, unseen=None, **changes):
    return simulate(description(**changes), calls, start_s=start_s, until_s=until_s, unseen=unseen)


def test_a_single_call_starts_cold_and_costs_its_window():
    outcome = run([Call(5.0, 0.5)], until_s=300.0, scaledown_window_s=60.0)
    assert (outcome.num_calls, outcome.num_cold, outcome.num_starts) == (1, 1, 1)
    assert outcome.waited_s == pytest.approx(0.1)
    assert 60.0 <= outcome.instance_s <= 65.0
    assert outcome.cold_share == 1.0


def test_no_calls_cost_nothing_and_have_no_share():
    outcome = run([], until_s=1000.0)
    assert outcome == Outcome()
    assert outcome.cold_share == 0.0


def test_a_window_longer_than_the_pauses_has_one_cold_start_and_never_ends():
    outcome = run(EVERY_TEN_MINUTES, until_s=TEN_HOURS_S, scaledown_window_s=700.0)
    assert (outcome.num_cold, outcome.num_starts) == (1, 1)
    assert outcome.instance_s == pytest.approx(TEN_HOURS_S - 5.0)


def test_a_histogram_of_regular_calls_has_few_cold_starts_for_a_part_of_the_time():
    fixed = run(EVERY_TEN_MINUTES, until_s=TEN_HOURS_S, scaledown_window_s=60.0)
    histogram = run(EVERY_TEN_MINUTES, until_s=TEN_HOURS_S, keep_alive="histogram")
    assert fixed.num_cold == 60
    assert histogram.num_cold == 1
    assert histogram.instance_s < TEN_HOURS_S / 4


def test_calls_beyond_the_queue_and_what_ends_are_counted():
    at_once = [Call(0.0, 1.0)] * 5
    outcome = run(at_once, until_s=100.0, max_instances=1)
    assert (outcome.num_calls, outcome.num_cold, outcome.num_refused) == (5, 5, 0)
    assert outcome.waited_s == pytest.approx(2 * 0.1 + 2 * 1.1 + 2.1)


def test_calls_after_its_end_are_left_out():
    assert run([Call(1.0, 1.0), Call(50.0, 1.0)], until_s=50.0).num_calls == 1


def test_the_least_is_there_without_a_call():
    outcome = run([], until_s=1000.0, min_instances=1)
    assert (outcome.num_starts, outcome.instance_s) == (1, 1000.0)


def test_calls_a_second_are_a_metric_of_their_own():
    short = [Call(number / 10, 0.01) for number in range(600)]
    assert run(short, until_s=60.0, max_inputs=100, target_inputs=70).num_starts == 1
    by_rate = run(short, until_s=60.0, max_inputs=100, target_inputs=70, target_rps=4.0)
    assert by_rate.num_starts == 3
    assert by_rate.num_cold <= 2, "the first call starts one at once, and is not counted twice"


def test_by_calls_a_second_one_call_of_minutes_keeps_its_instance():
    outcome = run([Call(5.0, 200.0)], until_s=300.0, target_rps=4.0)
    assert outcome.num_starts == 1
    assert 200.0 <= outcome.instance_s <= 215.0


def test_a_histogram_may_begin_with_other_bins():
    hurried = [Call(call.at_s / 100, call.duration_s / 100) for call in EVERY_TEN_MINUTES]
    settings = {"keep_alive": "histogram", "until_s": TEN_HOURS_S / 100, "start_s": 0.001}
    in_minutes = run(hurried, **settings)
    in_hundredths = run(hurried, unseen=IdleTimes(bin_s=0.6, burst_s=0.1), **settings)
    assert in_hundredths.num_cold == in_minutes.num_cold == 1
    assert in_hundredths.instance_s < in_minutes.instance_s / 2


def test_outcomes_add_up():
    one = run([Call(5.0, 0.5)], until_s=300.0)
    both = one + one
    assert (both.num_calls, both.num_cold, both.instance_s) == (2, 2, 2 * one.instance_s)
