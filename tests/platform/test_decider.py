import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faas.errors import SettingError
from faas.platform.decider import (
    DeciderState,
    Decision,
    Inputs,
    Mode,
    ScalingSettings,
    decide,
    keep_alive,
    starting_state,
    total_concurrency,
)
from faas.platform.windows import Averages, LoadWindows

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "knative-decisions.json").read_text())
RECORDED_SETTINGS = (
    "total",
    "utilization",
    "stable_window_s",
    "panic_threshold",
    "max_scale_up_rate",
    "max_scale_down_rate",
    "target_burst_capacity",
    "activation_scale",
    "scale_down_delay_s",
)
CALM = DeciderState(initial_reached=True)


def settings(container_concurrency: int, **changes: Any) -> ScalingSettings:
    return ScalingSettings(total=total_concurrency(container_concurrency), **changes)


def once(chosen: ScalingSettings, num_ready: int, load: float, state: DeciderState = CALM) -> Decision:
    return decide(Inputs(chosen, num_ready, Averages(load, load)), state, 100.0)[0]


# --- the vectors of the specification


@pytest.mark.parametrize(
    ("chosen", "num_ready", "load", "desired", "in_panic"),
    [
        pytest.param(settings(1), 1, 1, 2, True, id="one busy instance of concurrency 1"),
        pytest.param(settings(1, utilization=1.0), 1, 1, 1, False, id="the same, fully used"),
        pytest.param(settings(8), 1, 8, 2, True, id="one full instance of concurrency 8"),
        pytest.param(settings(8, utilization=1.0), 1, 8, 1, False, id="the same, fully used"),
        pytest.param(settings(8), 2, 16, 3, False, id="two full instances"),
        pytest.param(settings(8), 10, 3, 5, False, id="ten nearly idle instances halve"),
        pytest.param(settings(0), 0, 500, 8, True, id="a burst at zero"),
        pytest.param(settings(1, activation_scale=3), 0, 1, 3, True, id="activation scale"),
    ],
)
def test_the_specified_vectors(
    chosen: ScalingSettings, num_ready: int, load: float, desired: int, in_panic: bool
) -> None:
    decision = once(chosen, num_ready, load)
    assert (decision.desired, decision.in_panic, decision.valid) == (desired, in_panic, True)


def test_the_target_is_the_used_share_of_the_total() -> None:
    assert settings(1).target == 0.7
    assert settings(0).target == 70.0
    assert ScalingSettings(total=0.01, utilization=0.01).target == 0.01


@pytest.mark.parametrize(
    ("burst", "container_concurrency", "num_ready", "load", "excess"),
    [(211, 8, 27, 0, 5), (211, 0, 0, 500, -711), (0, 8, 3, 7, 0), (-1, 8, 27, 0, -1), (-1, 0, 0, 500, -1)],
)
def test_excess_burst_capacity(
    burst: int, container_concurrency: int, num_ready: int, load: float, excess: int
) -> None:
    chosen = settings(container_concurrency, target_burst_capacity=burst)
    assert once(chosen, num_ready, load).excess_burst_capacity == excess


# --- the decisions of the real one


@pytest.mark.parametrize("scenario", RECORDED, ids=lambda scenario: scenario["name"])
def test_recorded_decisions_to_the_last_digit(scenario: dict[str, Any]) -> None:
    spec, recorded = scenario["spec"], scenario["ticks"]
    chosen = ScalingSettings(initial_scale=0, **{name: spec[name] for name in RECORDED_SETTINGS})
    assert chosen.panic_window_s == spec["panic_window_s"]
    windows = LoadWindows(chosen.stable_window_s, chosen.panic_window_s)
    state, seconds = starting_state(spec["initial_ready"], 0.0), iter(enumerate(scenario["load"]))
    second = -1
    for tick in recorded:
        while second < tick["t"]:
            second, concurrency = next(seconds)
            if concurrency is not None:
                windows.record(second, concurrency)
        has_source = chosen.target_burst_capacity != -1
        load = None if has_source and windows.is_silent(second) else windows.averages(second)
        decision, state = decide(Inputs(chosen, tick["ready"], load, bool(spec["reachable"])), state, float(second))
        shown = load or Averages(0.0, 0.0)
        assert tick == {
            "t": second,
            "ready": tick["ready"],
            "stable": shown.stable,
            "panic": shown.panic,
            "desired": decision.desired,
            "ebc": decision.excess_burst_capacity,
            "valid": decision.valid,
            "in_panic": decision.in_panic,
        }


# --- rule by rule


def test_without_data_nothing_is_decided_and_nothing_forgotten() -> None:
    state = DeciderState(panic_at_s=3.0, panic_peak=4)
    decision, after = decide(Inputs(ScalingSettings(), 2, None), state, 50.0)
    assert decision == Decision(0, 0, in_panic=False, valid=False, mode=Mode.PROXY)
    assert after is state


def test_panic_never_goes_down_and_lasts_a_stable_window_after_the_last_excess() -> None:
    chosen = settings(1, utilization=1.0)
    decision, state = decide(Inputs(chosen, 1, Averages(1, 6)), CALM, 0.0)
    assert (decision.desired, decision.in_panic) == (6, True)
    decision, state = decide(Inputs(chosen, 3, Averages(3, 6)), state, 10.0)
    assert state.panic_at_s == 10.0, "an excess extends the panic"
    decision, state = decide(Inputs(chosen, 6, Averages(0, 0)), state, 70.0)
    assert (decision.desired, decision.in_panic) == (6, True)
    decision, state = decide(Inputs(chosen, 6, Averages(0, 0)), state, 70.1)
    assert (decision.desired, decision.in_panic) == (3, False)
    assert state.panic_peak == 0


def test_panic_provides_for_a_greater_stable_load_too() -> None:
    state = DeciderState(panic_at_s=99.0, panic_peak=2, initial_reached=True)
    decision, _ = decide(Inputs(settings(1, utilization=1.0), 4, Averages(5, 1)), state, 100.0)
    assert decision.desired == 5


@pytest.mark.parametrize(
    ("num_ready", "in_panic", "desired"), [(0, False, 0), (1, False, 0), (2, True, 2), (5, True, 5)]
)
def test_a_restart_with_several_instances_panics(num_ready: int, in_panic: bool, desired: int) -> None:
    decision = once(settings(8, initial_scale=0), num_ready, 0, starting_state(num_ready, 100.0))
    assert (decision.in_panic, decision.desired) == (in_panic, desired)


def test_rates_bound_a_step() -> None:
    assert once(settings(1, utilization=1.0, max_scale_up_rate=1.1), 2, 30).desired == 3
    assert once(settings(8, max_scale_down_rate=1.5), 10, 0).desired == 6


def test_an_unreachable_revision_is_held_up_by_nothing() -> None:
    chosen = settings(8, min_scale=2, scale_down_delay_s=30)
    state = replace(CALM, recent=((99.0, 7),))
    decision, _ = decide(Inputs(chosen, 10, Averages(0, 0), reachable=False), state, 100.0)
    assert decision.desired == 0


def test_scale_down_waits_for_the_delay() -> None:
    chosen = settings(1, utilization=1.0, scale_down_delay_s=10)
    state = CALM
    wanted = []
    for now_s, load in enumerate([4, 3, 3, 1, 2, 1, 1, 1], start=0):
        decision, state = decide(Inputs(chosen, 4, Averages(load, load)), state, now_s * 2.0)
        wanted.append(decision.desired)
    # Halving holds 2 up from the fourth on; a value counts while it is younger than the delay.
    assert wanted == [4, 4, 4, 4, 4, 3, 3, 2]


def test_a_delay_holds_what_panic_wanted_after_it_ends() -> None:
    chosen = settings(1, utilization=1.0, scale_down_delay_s=100)
    decision, state = decide(Inputs(chosen, 1, Averages(1, 5)), CALM, 0.0)
    assert (decision.desired, decision.in_panic) == (5, True)
    decision, state = decide(Inputs(chosen, 5, Averages(1, 1)), state, 61.0)
    assert (decision.desired, decision.in_panic) == (5, False)
    decision, state = decide(Inputs(chosen, 5, Averages(1, 1)), state, 161.0)
    assert decision.desired == 2, "half, at most, at once"


def test_the_maximum_bounds_panic_the_delay_and_the_activation_scale() -> None:
    chosen = settings(1, utilization=1.0, max_scale=2, scale_down_delay_s=10, activation_scale=4)
    decision, state = decide(Inputs(chosen, 1, Averages(1, 9)), CALM, 0.0)
    assert (decision.desired, decision.in_panic) == (2, True)
    decision, _ = decide(Inputs(chosen, 2, Averages(1, 1)), state, 2.0)
    assert decision.desired == 2


def test_activation_scale_holds_in_panic_too() -> None:
    decision = once(settings(1, activation_scale=3), 1, 1)
    assert (decision.desired, decision.in_panic) == (3, True)


def test_activation_scale_waits_for_load() -> None:
    chosen = settings(1, utilization=1.0, activation_scale=3)
    assert once(chosen, 0, 0).desired == 0
    assert once(chosen, 0, 0.1).desired == 3
    assert once(chosen, 1, 5).desired == 5


def test_bounds() -> None:
    chosen = settings(1, utilization=1.0, min_scale=2, max_scale=4)
    assert once(chosen, 1, 0).desired == 2
    assert once(chosen, 1, 3).desired == 3
    assert once(chosen, 1, 9).desired == 4


def test_initial_scale_is_a_minimum_until_it_was_reached_once() -> None:
    chosen = settings(1, initial_scale=3)
    decision, state = decide(Inputs(chosen, 0, Averages(0, 0)), DeciderState(), 0.0)
    assert decision.desired == 3
    decision, state = decide(Inputs(chosen, 2, Averages(0, 0)), state, 2.0)
    assert decision.desired == 3
    decision, state = decide(Inputs(chosen, 3, Averages(0, 0)), state, 4.0)
    assert decision.desired == 1
    decision, state = decide(Inputs(chosen, 0, Averages(0, 0)), state, 6.0)
    assert decision.desired == 0


def test_initial_scale_obeys_the_maximum() -> None:
    assert once(settings(1, initial_scale=9, max_scale=2), 0, 0, DeciderState()).desired == 2


@pytest.mark.parametrize(
    ("burst", "num_ready", "load", "mode"),
    [
        (0, 1, 1, Mode.SERVE),
        (0, 1, 0, Mode.PROXY),  # nothing wanted
        (-1, 1, 1, Mode.PROXY),
        (4, 1, 4, Mode.SERVE),  # 8 - 4 - 4 = 0
        (4, 1, 4.1, Mode.PROXY),
    ],
)
def test_the_activator_leaves_the_path_when_the_burst_fits(burst: int, num_ready: int, load: float, mode: Mode) -> None:
    chosen = settings(8, utilization=1.0, target_burst_capacity=burst, max_scale_down_rate=2)
    assert once(chosen, num_ready, load).mode is mode


# --- settings


def test_the_defaults_are_knatives() -> None:
    chosen = ScalingSettings()
    assert (chosen.total, chosen.utilization, chosen.target) == (100, 0.7, 70)
    assert (chosen.stable_window_s, chosen.panic_window_s, chosen.panic_threshold) == (60, 6, 2.0)
    assert (chosen.max_scale_up_rate, chosen.max_scale_down_rate) == (1000, 2)
    assert (chosen.target_burst_capacity, chosen.weighted) == (211, False)
    assert (chosen.initial_scale, chosen.min_scale, chosen.max_scale, chosen.activation_scale) == (1, 0, 0, 1)
    assert (chosen.scale_to_zero, chosen.scale_down_delay_s, chosen.retention_s) == (True, 0, 0)
    assert chosen.progress_deadline_s == 600


@pytest.mark.parametrize(
    ("window_s", "percent", "panic_s"), [(60, 10, 6), (6, 10, 1), (25, 10, 3), (6, 1, 1), (120, 50, 60)]
)
def test_panic_window(window_s: int, percent: float, panic_s: int) -> None:
    assert ScalingSettings(stable_window_s=window_s, panic_window_percent=percent).panic_window_s == panic_s


@pytest.mark.parametrize(
    ("container_concurrency", "target", "total"),
    [(0, None, 100), (8, None, 8), (0, 50, 50), (8, 50, 8), (8, 4, 4)],
)
def test_total_concurrency(container_concurrency: int, target: float | None, total: float) -> None:
    assert total_concurrency(container_concurrency, target) == total


@pytest.mark.parametrize(
    ("scaledown_s", "window_s", "retention_s"), [(60, 60, 0), (300, 60, 240), (5, 6, 0), (10.5, 10, 0.5), (0.5, 6, 0)]
)
def test_keep_alive(scaledown_s: float, window_s: int, retention_s: float) -> None:
    assert keep_alive(scaledown_s) == (window_s, retention_s)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"total": 0}, "total=0: give a number from 0.01 to inf"),
        ({"utilization": 1.1}, "utilization=1.1"),
        ({"stable_window_s": 5}, "stable_window_s=5: give a number from 6 to 3600"),
        ({"stable_window_s": 6.5}, "whole seconds"),
        ({"panic_window_percent": 0}, "panic_window_percent=0"),
        ({"panic_threshold": 1}, "panic_threshold=1"),
        ({"target_burst_capacity": -0.5}, "give -1, 0 or more"),
        ({"max_scale_up_rate": 1}, "a rate of 1 never moves"),
        ({"max_scale_down_rate": 1}, "a rate of 1 never moves"),
        ({"activation_scale": 0}, "activation_scale=0"),
        ({"min_scale": -1}, "min_scale=-1"),
        ({"min_scale": 3, "max_scale": 2}, "the least is more than the most"),
        ({"retention_s": float("nan")}, "retention_s=nan"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        ScalingSettings(**wrong)
