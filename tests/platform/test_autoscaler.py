"""The autoscaler as the control loop and a simulation drive it."""

import pytest

from faas.platform.autoscaler import Autoscaler
from faas.platform.decider import ScalingSettings
from faas.platform.keepalive import KeepAlive


def autoscaler(**changes):
    return Autoscaler(ScalingSettings(**{"total": 1, "utilization": 1.0, "initial_scale": 0} | changes))


def test_load_brings_instances_and_their_absence_lets_them_go_after_the_stable_window():
    scaler = autoscaler()
    scaler.record(100.0, 3.0)
    assert scaler.decide(0, 100.0) is None
    assert scaler.scale == 3
    scaler.record(101.0, 0.0)
    scaler.decide(3, 102.0)
    assert scaler.scale == 3
    scaler.record(230.0, 0.0)
    scaler.decide(3, 230.0)
    assert scaler.scale == 1, "half of what there is, at once"
    scaler.decide(1, 232.0)
    scaler.decide(1, 300.0)
    assert scaler.scale == 0


def test_seconds_that_were_left_out_had_no_load():
    left_out, told = autoscaler(total=100), autoscaler(total=100)
    for scaler in (left_out, told):
        scaler.record(0.0, 600.0)
    for second in range(1, 30):
        told.record(float(second), 0.0)
    for scaler in (left_out, told):
        scaler.record(30.0, 600.0)
        scaler.decide(20, 30.0)
    assert left_out.scale == told.scale == 10  # halved; by one second alone it would be panic


def test_a_long_pause_does_not_make_the_next_second_count_alone():
    scaler = autoscaler(total=1)
    scaler.record(0.0, 1.0)
    scaler.record(1000.0, 6.0)
    scaler.decide(1, 1000.0)
    assert scaler.scale == 1  # 6 in one of 6 and of 60 seconds


@pytest.mark.parametrize(("num_ready", "scale"), [(0, 0), (1, 0), (3, 3)])
def test_beginning_anew_with_several_instances_it_keeps_them(num_ready, scale):
    scaler = autoscaler()
    scaler.restart(num_ready, 50.0)
    scaler.record(50.0, 0.0)
    scaler.decide(num_ready, 50.0)
    assert scaler.scale == scale


def test_it_is_calm_when_nothing_changes_without_a_request():
    scaler = autoscaler(retention_s=100.0)
    scaler.record(0.0, 1.0)
    scaler.decide(1, 0.0)
    assert not scaler.is_calm
    scaler.record(70.0, 0.0)
    assert scaler.decide(1, 70.0) == 170.0
    assert scaler.is_calm
    assert scaler.scale == 1
    assert scaler.decide(1, 170.0) is None
    assert scaler.scale == 0


def test_it_is_not_calm_in_panic_nor_above_its_least():
    scaler = autoscaler(min_scale=1)
    scaler.restart(2, 0.0)
    scaler.record(0.0, 0.0)
    scaler.decide(2, 0.0)
    assert not scaler.is_calm
    scaler.decide(2, 61.0)
    assert scaler.is_calm
    assert scaler.scale == 1


def test_weighted_windows_are_an_option():
    scaler = autoscaler(weighted=True, total=1)
    for second in range(60):
        scaler.record(float(second), 0.0)
    scaler.record(60.0, 10.0)
    scaler.decide(3, 60.0)
    assert scaler.scale == 8  # panic: 1 - 0.0001 ** (1 / 6) of 10, where the plain mean has 10 / 6


@pytest.mark.parametrize(
    ("changes", "least_s", "most_s"),
    [
        ({}, 60, 64),
        ({"scale_to_zero_grace_s": 30.0, "target_burst_capacity": 0}, 88, 94),
        ({"scale_to_zero_grace_s": 30.0}, 60, 64),  # the activator was in the path for that long already
        ({"retention_s": 60.0}, 120, 124),
        ({"stable_window_s": 6}, 6, 10),
    ],
)
def test_how_long_after_the_last_request_zero_is_reached(changes, least_s, most_s):
    scaler = autoscaler(**changes)
    num_ready = 0
    for second in range(400):
        scaler.record(float(second), 1.0 if 10 <= second < 110 else 0.0)
        if second % 2 == 0:
            scaler.decide(num_ready, float(second))
            num_ready = scaler.scale
        if second > 110 and num_ready == 0:
            assert least_s <= second - 110 <= most_s
            return
    raise AssertionError("it never went")


def test_when_idle_a_habit_decides():
    scaler = autoscaler()
    kept = KeepAlive(prewarm_s=100.0, keep_s=200.0)
    assert [scaler.scale_idle(kept, idle_s) for idle_s in (5.0, 50.0, 150.0, 250.0)] == [1, 0, 1, 0]
    scaler.record(0.0, 3.0)
    scaler.decide(3, 0.0)
    assert scaler.scale_idle(kept, 5.0) == 3
