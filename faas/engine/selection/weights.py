"""Weights of variants by name, kept as logarithms of their shares: what exp3 and exp4 learn.

A share never falls below a least one, so a variant that was bad for long is back soon once it is good again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

Logs = Mapping[str, float]

_LOWEST: Final = -700.0
"""What a logarithm is held at before it is turned back: exp() of less is 0, and of 0 there is no logarithm."""


def even(names: Iterable[str]) -> Logs:
    """Return the weights of variants of which nothing is known."""
    listed = list(names)
    return dict.fromkeys(listed, -math.log(len(listed))) if listed else {}


def shares(logs: Logs) -> dict[str, float]:
    """Return w_i = s_i / sum(s); they add up to 1."""
    if not logs:
        return {}
    most = max(logs.values())
    scaled = {name: math.exp(max(_LOWEST, log - most)) for name, log in logs.items()}
    total = sum(scaled.values())
    return {name: held / total for name, held in scaled.items()}


def changed(logs: Logs, by: Logs, least: float) -> Logs:
    """Return the weights with `by` added to some logarithms, and no share below `least`, at most 1/k.

    A variant that only `by` has is left out.
    """
    moved = shares({name: log + by.get(name, 0.0) for name, log in logs.items()})
    return {name: math.log(share) for name, share in _raised(moved, least).items()}


def fitted(logs: Logs, names: Iterable[str]) -> Logs:
    """Return the weights of exactly `names`: those that are gone are taken out, new ones get the mean weight."""
    listed = list(names)
    held = shares({name: logs[name] for name in listed if name in logs})
    if not held:
        return even(listed)
    mean = sum(held.values()) / len(held)
    whole = {name: held.get(name, mean) for name in listed}
    total = sum(whole.values())
    return {name: math.log(max(math.exp(_LOWEST), share / total)) for name, share in whole.items()}


def _raised(held: Mapping[str, float], least: float) -> dict[str, float]:
    """Raise what is below `least` up to it, and take it from the others in proportion."""
    low: set[str] = set()
    while True:
        rest = {name: share for name, share in held.items() if name not in low}
        scale = (1.0 - least * len(low)) / sum(rest.values())
        fallen = {name for name, share in rest.items() if share * scale < least}
        if not fallen or len(fallen) == len(rest):
            return {name: least if name in low else share * scale for name, share in held.items()}
        low |= fallen
