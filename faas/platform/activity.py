"""From a wanted number of instances to what runs: the same, but for the way to zero, which takes its time.

Pure like the decider: a state and the time come in, the next state goes out.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum

from faas.platform.decider import Decision, Inputs, Mode

_ACTIVATION_SLACK_S = 30.0  # granted beyond the progress deadline before a start counts as failed


class Activity(Enum):
    """What a function is doing, as far as the way to zero is concerned."""

    INACTIVE = "inactive"
    ACTIVATING = "activating"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class ActivityState:
    """What `settle` remembers: the activity and since when, the last scale, and since when the activator is in the path
    (infinity: it is not)."""

    activity: Activity = Activity.INACTIVE
    since_s: float = -math.inf
    proxy_since_s: float = -math.inf
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Settlement:
    """Instances to run now, and when to settle again should nothing happen before (None: no need)."""

    scale: int
    again_at_s: float | None = None


def settle(inputs: Inputs, decision: Decision, state: ActivityState, now_s: float) -> tuple[Settlement, ActivityState]:
    """What to run now: the decision's number, or on the way to zero the last one until zero is due.

    Zero is due when the function has been active for a stable window, and after that inactive for the longer of grace
    and retention, or past retention once the activator has been in the path for the grace. A start that comes to
    nothing is given up 30 s after the progress deadline.
    """
    if not decision.valid:
        return Settlement(state.scale), state
    settings = inputs.settings
    state = _observe(inputs, decision, state, now_s)
    desired = decision.desired or (0 if settings.scale_to_zero else 1)
    if desired > 0:
        return Settlement(desired), replace(state, scale=desired)
    if state.activity is Activity.ACTIVATING:
        return _hold_or_zero(state, now_s, state.since_s + settings.progress_deadline_s + _ACTIVATION_SLACK_S)
    if state.activity is Activity.ACTIVE:
        idle_s = state.since_s + settings.stable_window_s
        if now_s < idle_s:
            return Settlement(1, idle_s), replace(state, scale=1)
        state = replace(state, activity=Activity.INACTIVE, since_s=now_s)
    grace_s, retention_s = settings.scale_to_zero_grace_s, settings.retention_s
    retained_s = state.since_s + retention_s
    due_s = min(max(retained_s, state.since_s + grace_s), max(retained_s, state.proxy_since_s + grace_s))
    return _hold_or_zero(state, now_s, due_s)


def _observe(inputs: Inputs, decision: Decision, state: ActivityState, now_s: float) -> ActivityState:
    """`state` after a look at who is ready and who is in the path."""
    if decision.mode is Mode.SERVE:
        state = replace(state, proxy_since_s=math.inf)
    elif state.proxy_since_s == math.inf:
        state = replace(state, proxy_since_s=now_s)
    if state.activity is Activity.INACTIVE and decision.desired == 0:
        return state
    if inputs.num_ready > 0:
        activity = Activity.ACTIVE
    elif decision.desired > 0:
        activity = Activity.ACTIVATING
    else:
        return state
    return state if activity is state.activity else replace(state, activity=activity, since_s=now_s)


def _hold_or_zero(state: ActivityState, now_s: float, due_s: float) -> tuple[Settlement, ActivityState]:
    if now_s < due_s:
        return Settlement(state.scale, due_s), state
    if state.activity is not Activity.INACTIVE:
        state = replace(state, activity=Activity.INACTIVE, since_s=now_s)
    return Settlement(0), replace(state, scale=0)
