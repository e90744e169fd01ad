"""How many instances a function should have: Knative's autoscaler as a pure function.

Nothing here reads a clock, waits or acts: load, state and time come in, a decision and the next state go out. What then
runs differs from the wanted number only on the way to zero, which is `faas.platform.activity`.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum

from faas.errors import SettingError
from faas.platform.windows import Averages

_MIN_TARGET = 0.01
_MAX_WINDOW_S = 3600
_MIN_WINDOW_S = 6
_DEFAULT_WINDOW_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSettings:
    """Knative's autoscaling settings of one function, with Knative's defaults but for the grace, 0 s on one box.

    `total` is the load that one instance is meant to carry, of which `utilization` (0 to 1) is aimed at: a concurrency,
    or requests a second where these are the metric. The rule is the same for both.
    `panic_threshold` and both rates are factors. A `max_scale` of 0 is no limit. A `target_burst_capacity` of -1 keeps
    the activator in the path always, 0 only at zero. `stable_window_s` is whole seconds. With `weighted`, Knative's
    "weighted-exponential", newer seconds count more. Raises SettingError.
    """

    total: float = 100.0
    utilization: float = 0.7
    stable_window_s: int = _DEFAULT_WINDOW_S
    panic_window_percent: float = 10.0
    panic_threshold: float = 2.0
    max_scale_up_rate: float = 1000.0
    max_scale_down_rate: float = 2.0
    target_burst_capacity: float = 211.0
    activation_scale: int = 1
    initial_scale: int = 1
    min_scale: int = 0
    max_scale: int = 0
    scale_down_delay_s: float = 0.0
    scale_to_zero: bool = True
    scale_to_zero_grace_s: float = 0.0
    retention_s: float = 0.0
    progress_deadline_s: float = 600.0
    weighted: bool = False

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise SettingError(f"{name}={value}: give a number from {least} to {most}")
        if self.stable_window_s != int(self.stable_window_s):
            raise SettingError(f"stable_window_s={self.stable_window_s}: give whole seconds")
        if -1 < self.target_burst_capacity < 0:
            raise SettingError(f"target_burst_capacity={self.target_burst_capacity}: give -1, 0 or more")
        for name in ("max_scale_up_rate", "max_scale_down_rate"):
            if getattr(self, name) <= 1:
                raise SettingError(f"{name}={getattr(self, name)}: a rate of 1 never moves; give more than 1")
        if 0 < self.max_scale < self.min_scale:
            raise SettingError(
                f"min_scale={self.min_scale}, max_scale={self.max_scale}: the least is more than the most"
            )

    @property
    def target(self) -> float:
        """The load to aim at on each instance."""
        return max(_MIN_TARGET, self.total * self.utilization)

    @property
    def panic_window_s(self) -> int:
        """Length of the panic window: its share of the stable window in whole seconds, at least 1."""
        return max(1, math.floor(self.stable_window_s * self.panic_window_percent / 100 + 0.5))


_RANGES = {
    "total": (_MIN_TARGET, math.inf),
    "utilization": (0.01, 1.0),
    "stable_window_s": (_MIN_WINDOW_S, _MAX_WINDOW_S),
    "panic_window_percent": (1.0, 100.0),
    "panic_threshold": (1.1, 10.0),
    "target_burst_capacity": (-1.0, math.inf),
    "activation_scale": (1, math.inf),
    "initial_scale": (0, math.inf),
    "min_scale": (0, math.inf),
    "max_scale": (0, math.inf),
    "scale_down_delay_s": (0.0, _MAX_WINDOW_S),
    "scale_to_zero_grace_s": (0.0, math.inf),
    "retention_s": (0.0, math.inf),
    "progress_deadline_s": (0.0, math.inf),
}


def total_concurrency(container_concurrency: int, target: float | None = None) -> float:
    """`ScalingSettings.total` from an instance's hard limit (0: none) and the concurrency asked for (None: no wish)."""
    if target is None:
        return float(container_concurrency or 100)
    return min(target, container_concurrency) if container_concurrency else target


def keep_alive(scaledown_window_s: float) -> tuple[int, float]:
    """How long idleness lasts before zero, as `stable_window_s` and `retention_s`: a window, the rest retention."""
    window_s = max(_MIN_WINDOW_S, min(math.floor(scaledown_window_s), _DEFAULT_WINDOW_S))
    return window_s, max(0.0, scaledown_window_s - window_s)


class Mode(Enum):
    """Whether the activator is in the path of requests."""

    SERVE = "serve"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a decision is made from. `load` is None where a source of it exists but has been silent.

    A revision that no route leads to is not `reachable`: its bounds, delay and downward rate no longer hold it up.
    """

    settings: ScalingSettings
    num_ready: int
    load: Averages | None
    reachable: bool = True


@dataclass(frozen=True, slots=True)
class DeciderState:
    """What `decide` remembers. `panic_at_s` is when load was last over the threshold, None outside of panic.

    `recent` holds the times and values that may still be the greatest within the scale-down delay, greatest first.
    """

    panic_at_s: float | None = None
    panic_peak: int = 0
    initial_reached: bool = False
    recent: tuple[tuple[float, int], ...] = ()


def starting_state(num_ready: int, now_s: float) -> DeciderState:
    """The state of a decider that (re)starts. With several instances it panics, since it has forgotten their load."""
    if num_ready > 1:
        return DeciderState(panic_at_s=now_s, panic_peak=num_ready)
    return DeciderState()


@dataclass(frozen=True, slots=True)
class Decision:
    """`desired` instances. Not `valid`: there was no data, leave everything as it is.

    `excess_burst_capacity` is the concurrency to spare after the wanted burst; below 0 the activator stays in the path.
    """

    desired: int
    excess_burst_capacity: int
    in_panic: bool
    valid: bool
    mode: Mode


_NO_DATA = Decision(desired=0, excess_burst_capacity=0, in_panic=False, valid=False, mode=Mode.PROXY)


def decide(inputs: Inputs, state: DeciderState, now_s: float) -> tuple[Decision, DeciderState]:
    """One tick of Knative's autoscaler."""
    if inputs.load is None:
        return _NO_DATA, state
    settings = inputs.settings
    stable = _within_rates(inputs, inputs.load.stable)
    panic = _within_rates(inputs, inputs.load.panic)
    state = _panic_or_calm(inputs, state, now_s)
    desired = stable
    if state.panic_at_s is not None:
        desired = max(state.panic_peak, stable, panic)
        state = replace(state, panic_peak=desired)
    if inputs.reachable and settings.scale_down_delay_s > 0:
        recent = _with_latest(state.recent, (now_s, desired), now_s - settings.scale_down_delay_s)
        desired = recent[0][1]
        state = replace(state, recent=recent)
    state = replace(state, initial_reached=state.initial_reached or inputs.num_ready >= settings.initial_scale)
    desired = _within_bounds(inputs, state, desired)
    spare = _excess_burst_capacity(inputs, inputs.load.panic)
    mode = Mode.SERVE if desired > 0 and spare >= 0 else Mode.PROXY
    return Decision(desired, spare, state.panic_at_s is not None, True, mode), state


def _needed(inputs: Inputs, concurrency: float) -> int:
    return math.ceil(concurrency / inputs.settings.target)


def _within_rates(inputs: Inputs, concurrency: float) -> int:
    """Instances for this concurrency, no further from what is ready than the rates allow, or the activation scale."""
    settings, ready = inputs.settings, max(1, inputs.num_ready)
    needed = _needed(inputs, concurrency)
    most = math.ceil(settings.max_scale_up_rate * ready)
    least = math.floor(ready / settings.max_scale_down_rate) if inputs.reachable else 0
    desired = min(max(needed, least), most)
    if needed > 0 and settings.activation_scale > 1:
        return max(desired, settings.activation_scale)
    return desired


def _panic_or_calm(inputs: Inputs, state: DeciderState, now_s: float) -> DeciderState:
    assert inputs.load is not None
    settings = inputs.settings
    if _needed(inputs, inputs.load.panic) / max(1, inputs.num_ready) >= settings.panic_threshold:
        return replace(state, panic_at_s=now_s)
    if state.panic_at_s is not None and state.panic_at_s + settings.stable_window_s < now_s:
        return replace(state, panic_at_s=None, panic_peak=0)
    return state


def _with_latest(
    recent: tuple[tuple[float, int], ...], latest: tuple[float, int], expired_s: float
) -> tuple[tuple[float, int], ...]:
    """`recent` without what has expired and what `latest` outdoes, and with `latest`: its first is the greatest."""
    return (*(entry for entry in recent if entry[0] > expired_s and entry[1] > latest[1]), latest)


def _within_bounds(inputs: Inputs, state: DeciderState, desired: int) -> int:
    settings = inputs.settings
    least = settings.min_scale if inputs.reachable else 0
    if not state.initial_reached:
        least = max(least, settings.initial_scale)
    desired = max(desired, least)
    return min(desired, settings.max_scale) if settings.max_scale else desired


def _excess_burst_capacity(inputs: Inputs, panic_concurrency: float) -> int:
    settings = inputs.settings
    if settings.target_burst_capacity <= 0:
        return int(settings.target_burst_capacity)
    return math.floor(inputs.num_ready * settings.total - settings.target_burst_capacity - panic_concurrency)
