"""The way to zero, and how a number of instances becomes what runs."""

import math
from typing import Any

import pytest

from faas.platform.activity import Activity, ActivityState, Settlement, settle
from faas.platform.decider import Decision, Inputs, Mode, ScalingSettings
from faas.platform.windows import Averages

NOTHING = Averages(0.0, 0.0)


def wanted(desired: int, *, serve: bool = False, valid: bool = True) -> Decision:
    return Decision(desired, 0, False, valid, Mode.SERVE if serve else Mode.PROXY)


class Function:
    """A function under `settle`, with the state carried along."""

    def __init__(self, **changes: Any) -> None:
        self.settings = ScalingSettings(**changes)
        self.state = ActivityState()

    def at(self, now_s: float, decision: Decision, num_ready: int) -> Settlement:
        settlement, self.state = settle(Inputs(self.settings, num_ready, NOTHING), decision, self.state, now_s)
        return settlement

    def active_since_zero(self) -> "Function":
        assert self.at(0.0, wanted(1), 1) == Settlement(1)
        assert self.state.activity is Activity.ACTIVE
        return self


def test_a_function_that_was_never_asked_for_stays_at_zero() -> None:
    assert Function(scale_to_zero_grace_s=30).at(5.0, wanted(0), 0) == Settlement(0)


def test_a_wish_is_granted_at_once() -> None:
    function = Function()
    assert function.at(0.0, wanted(3), 0) == Settlement(3)
    assert function.state == ActivityState(Activity.ACTIVATING, since_s=0.0, scale=3)
    assert function.at(1.0, wanted(3), 1) == Settlement(3)
    assert function.state == ActivityState(Activity.ACTIVE, since_s=1.0, scale=3)
    assert function.at(2.0, wanted(2), 3) == Settlement(2)


def test_no_data_leaves_everything_as_it_is() -> None:
    function = Function()
    function.at(0.0, wanted(3), 3)
    before = function.state
    assert function.at(90.0, wanted(0, valid=False), 3) == Settlement(3)
    assert function.state is before


def test_one_instance_stays_until_active_for_a_stable_window() -> None:
    function = Function(stable_window_s=60).active_since_zero()
    assert function.at(59.0, wanted(0), 1) == Settlement(1, again_at_s=60.0)
    assert function.at(60.0, wanted(0), 1) == Settlement(0)


def test_on_one_box_there_is_no_grace_unless_set() -> None:
    assert ScalingSettings().scale_to_zero_grace_s == 0.0


def test_grace_runs_from_inactivity() -> None:
    function = Function(scale_to_zero_grace_s=30).active_since_zero()
    function.at(10.0, wanted(1, serve=True), 1)  # the activator was out of the path until the end
    assert function.at(80.0, wanted(0), 1) == Settlement(1, again_at_s=110.0)
    assert function.state.activity is Activity.INACTIVE
    assert function.at(109.9, wanted(0), 1) == Settlement(1, again_at_s=110.0)
    assert function.at(110.0, wanted(0), 1) == Settlement(0)


def test_grace_is_spent_where_the_activator_was_long_in_the_path() -> None:
    function = Function(scale_to_zero_grace_s=30).active_since_zero()
    assert function.at(80.0, wanted(0), 1) == Settlement(0)


def test_the_fast_path_waits_for_retention() -> None:
    function = Function(scale_to_zero_grace_s=30, retention_s=20).active_since_zero()
    assert function.at(80.0, wanted(0), 1) == Settlement(1, again_at_s=100.0)
    assert function.at(100.0, wanted(0), 1) == Settlement(0)


def test_retention_outlasts_a_shorter_grace() -> None:
    function = Function(scale_to_zero_grace_s=30, retention_s=240).active_since_zero()
    function.at(10.0, wanted(1, serve=True), 1)
    assert function.at(80.0, wanted(0), 1) == Settlement(1, again_at_s=320.0)
    assert function.at(320.0, wanted(0), 1) == Settlement(0)


def test_what_runs_is_held_while_inactive() -> None:
    function = Function(retention_s=20)
    function.at(0.0, wanted(2), 2)
    assert function.at(70.0, wanted(0), 2) == Settlement(2, again_at_s=90.0)


def test_a_request_on_the_way_to_zero_starts_it_over() -> None:
    function = Function(retention_s=20).active_since_zero()
    function.at(70.0, wanted(0), 1)
    assert function.at(75.0, wanted(1), 1) == Settlement(1)
    assert function.at(90.0, wanted(0), 1) == Settlement(1, again_at_s=135.0)


def test_a_start_that_comes_to_nothing_is_given_up() -> None:
    function = Function(progress_deadline_s=100)
    function.at(0.0, wanted(2), 0)
    assert function.at(50.0, wanted(0), 0) == Settlement(2, again_at_s=130.0)
    assert function.at(130.0, wanted(0), 0) == Settlement(0)
    assert function.state == ActivityState(Activity.INACTIVE, since_s=130.0, scale=0)


def test_a_start_that_succeeds_late_becomes_active_though_nobody_asks_any_more() -> None:
    function = Function(stable_window_s=60)
    function.at(0.0, wanted(1), 0)
    assert function.at(5.0, wanted(0), 1) == Settlement(1, again_at_s=65.0)
    assert function.at(65.0, wanted(0), 1) == Settlement(0)


def test_an_active_function_whose_instances_die_is_activating_again() -> None:
    function = Function().active_since_zero()
    assert function.at(10.0, wanted(1), 0) == Settlement(1)
    assert function.state.activity is Activity.ACTIVATING
    assert function.state.since_s == 10.0


@pytest.mark.parametrize("now_s", [0.0, 1e6])
def test_scale_to_zero_can_be_off(now_s: float) -> None:
    assert Function(scale_to_zero=False).at(now_s, wanted(0), 1) == Settlement(1)


def test_who_is_in_the_path_is_remembered() -> None:
    function = Function().active_since_zero()
    assert function.state.proxy_since_s == -math.inf
    function.at(1.0, wanted(1, serve=True), 1)
    assert function.state.proxy_since_s == math.inf
    function.at(2.0, wanted(1), 1)
    function.at(3.0, wanted(1), 1)
    assert function.state.proxy_since_s == 2.0
