from __future__ import annotations

import itertools

import pytest

from faas.engine.versions.states import State, Step
from faas.engine.versions.transitions import (
    Load,
    Seen,
    Unload,
    availability_preserving,
    resource_preserving,
)


def seen(**versions: str) -> list[Seen]:
    """Return versions as `v1="ready+"` says: a step, and a plus where it is aspired."""
    return [Seen(int(name[1:]), Step(said.rstrip("+")), said.endswith("+")) for name, said in versions.items()]


@pytest.mark.parametrize(
    ("versions", "action"),
    [
        ({}, None),
        ({"v1": "new+"}, Load(1)),
        ({"v1": "new+", "v2": "new+"}, Load(2)),
        ({"v1": "ready", "v2": "new+"}, Load(2)),  # the last ready one stays until another is
        ({"v1": "ready", "v2": "loading+"}, None),
        ({"v1": "ready", "v2": "error+"}, None),  # a broken version leaves the old one serving
        ({"v1": "ready", "v2": "ready+"}, Unload(1)),
        ({"v1": "ready", "v2": "ready", "v3": "new+"}, Unload(1)),  # of two that must go one may
        ({"v1": "ready"}, Unload(1)),  # nothing is aspired
        ({"v1": "ready", "v2": "quiescing"}, Unload(1)),
        ({"v1": "ready+", "v2": "new+"}, Load(2)),
        ({"v1": "disabled+", "v2": "error+"}, None),
        ({"v1": "quiescing", "v2": "new+"}, Load(2)),
    ],
)
def test_l6_availability_preserving(versions: dict[str, str], action: object):
    assert availability_preserving(seen(**versions)) == action


def test_l6_never_unloads_the_last_ready_version_while_an_aspired_one_is_not():
    steps = [f"{step.value}{plus}" for step in Step for plus in ("", "+")]
    for states in itertools.product(steps, repeat=3):
        versions = seen(v1=states[0], v2=states[1], v3=states[2])
        action = availability_preserving(versions)
        ready = [one for one in versions if one.step is Step.READY]
        if isinstance(action, Unload):
            assert any(one.is_aspired for one in ready) or len(ready) > 1 or not any(v.is_aspired for v in versions)
            assert not next(one for one in versions if one.number == action.number).is_aspired  # L5


@pytest.mark.parametrize(
    ("versions", "action"),
    [
        ({}, None),
        ({"v1": "ready", "v2": "new+"}, Unload(1)),
        ({"v1": "quiescing", "v2": "new+"}, None),
        ({"v1": "unloading", "v2": "new+"}, None),
        ({"v1": "loading", "v2": "new+"}, None),
        ({"v1": "disabled", "v2": "new+"}, Load(2)),
        ({"v1": "error", "v2": "new+", "v3": "new+"}, Load(3)),
        ({"v3": "ready", "v1": "ready"}, Unload(3)),  # the first, not the smallest
        ({"v1": "ready+", "v2": "new+"}, Load(2)),
    ],
)
def test_l7_resource_preserving(versions: dict[str, str], action: object):
    assert resource_preserving(seen(**versions)) == action


def test_what_clients_are_told_of_each_step():
    assert {step: step.state for step in Step} == {
        Step.NEW: State.START,
        Step.REQUESTED: State.START,
        Step.LOADING: State.LOADING,
        Step.RETRYING: State.LOADING,
        Step.READY: State.AVAILABLE,
        Step.QUIESCING: State.UNLOADING,
        Step.UNLOADING: State.UNLOADING,
        Step.DISABLED: State.END,
        Step.ERROR: State.END,
    }
    assert [state.value for state in State] == [10, 20, 30, 40, 50]
