"""What is to be done next with the versions of a function: TensorFlow Serving's two rules. Pure, without memory.

Each is asked again whenever something has changed, and names one action at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from faas.engine.versions.states import Step
from faas.spec.versions import Transition


@dataclass(frozen=True)
class Seen:
    """A version as the rules see it. One that is not aspired is to be unloaded."""

    number: int
    step: Step
    is_aspired: bool


@dataclass(frozen=True)
class Load:
    """Begin to load this version."""

    number: int


@dataclass(frozen=True)
class Unload:
    """Begin to unload this version."""

    number: int


Action = Load | Unload
Rule = Callable[[Sequence[Seen]], Action | None]


def availability_preserving(versions: Sequence[Seen]) -> Action | None:
    """Load before unloading: the last ready version goes only once an aspired one is ready, or none is aspired."""
    unwanted = [one.number for one in versions if one.step is Step.READY and not one.is_aspired]
    is_served = any(one.is_aspired and one.step is Step.READY for one in versions)
    is_wanted = any(one.is_aspired for one in versions)
    if unwanted and (not is_wanted or is_served or len(unwanted) > 1):
        return Unload(min(unwanted))
    return _load(versions)


def resource_preserving(versions: Sequence[Seen]) -> Action | None:
    """Unload before loading: nothing is loaded while a version that is not aspired is anything but gone."""
    unwanted = [one for one in versions if not one.is_aspired]
    for one in unwanted:
        if one.step is Step.READY:
            return Unload(one.number)
    if any(not one.step.is_final for one in unwanted):
        return None
    return _load(versions)


RULES: Final[dict[Transition, Rule]] = {
    "availability": availability_preserving,
    "resource": resource_preserving,
}


def _load(versions: Sequence[Seen]) -> Load | None:
    new = [one.number for one in versions if one.is_aspired and one.step is Step.NEW]
    return Load(max(new)) if new else None
