"""One function's autoscaler: its load, Knative's decision, the way to zero and how long to keep warm, in one object.

No clock and no I/O: the control loop brings the time and what it measures, and a simulation can do the same.
"""

from __future__ import annotations

from dataclasses import replace

from faas.description import Description
from faas.platform.activity import ActivityState, settle
from faas.platform.decider import (
    Inputs,
    ScalingSettings,
    decide,
    keep_alive,
    starting_state,
    total_concurrency,
)
from faas.platform.keepalive import KeepAlive
from faas.platform.windows import LoadWindows


def scaling_settings(description: Description, *, grace_s: float = 0.0) -> ScalingSettings:
    """Return how a function scales on one box, as `deploy` would have Knative scale it: full batches are the target.

    `grace_s` is Knative's grace before zero.
    """
    window_s, retention_s = keep_alive(description.scaledown_window_s)
    return ScalingSettings(
        total=description.target_rps or total_concurrency(description.max_inputs, description.target_inputs),
        utilization=1.0,
        stable_window_s=window_s,
        retention_s=retention_s,
        target_burst_capacity=-1,
        activation_scale=description.activation_scale,
        initial_scale=0,
        min_scale=description.min_instances,
        max_scale=description.max_instances,
        scale_to_zero_grace_s=grace_s,
        progress_deadline_s=description.startup_timeout_s + 60,
    )


class Autoscaler:
    """How many instances a function should have. Times are seconds of any clock that never goes back."""

    def __init__(self, settings: ScalingSettings) -> None:
        self.settings = settings
        self.restart(0, 0.0)

    def restart(self, num_ready: int, now_s: float) -> None:
        """Begin without a past: no load, nothing on the way to zero; with several instances in panic, as Knative's."""
        settings = self.settings
        self._windows = LoadWindows(settings.stable_window_s, settings.panic_window_s, weighted=settings.weighted)
        self._decider = starting_state(num_ready, now_s)
        self._activity = ActivityState()
        self._recorded_until: int | None = None
        self.is_calm = False
        """Whether without a request nothing will change before the date that `decide` gave last."""

    def record(self, now_s: float, load: float) -> None:
        """Add the load of the second that ends now, its average concurrency or the requests that came in it.

        Seconds left out since the last had none.
        """
        second = int(now_s)
        if self._recorded_until is not None:
            begin = max(self._recorded_until + 1, second - self.settings.stable_window_s)
            for silent in range(begin, second):
                self._windows.record(silent, 0.0)
        self._windows.record(second, load)
        self._recorded_until = second

    def decide(self, num_ready: int, now_s: float) -> float | None:
        """Decide anew. Returns when to do so again at the latest, where a date is known."""
        load = self._windows.averages(int(now_s))
        inputs = Inputs(self.settings, num_ready, load)
        decision, self._decider = decide(inputs, self._decider, now_s)
        settlement, self._activity = settle(inputs, decision, self._activity, now_s)
        self._activity = replace(self._activity, scale=settlement.scale)
        is_least = decision.desired <= self.settings.min_scale
        self.is_calm = is_least and not decision.in_panic and load.stable == load.panic == 0.0
        return settlement.again_at_s

    @property
    def scale(self) -> int:
        """Instances to have, as the load asks for them."""
        return self._activity.scale

    def scale_idle(self, kept: KeepAlive, idle_s: float) -> int:
        """Instances to have `idle_s` after the last answer, where `kept` says when an idle function is warm."""
        return max(1, self.scale) if kept.wants_warm(idle_s) else 0
