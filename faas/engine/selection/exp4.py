"""Exp4: all variants answer, and vote with their weights; feedback tells each one's own loss.

s_i *= exp(-eta * L_i). Since all are observed nothing is divided by a probability.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from faas.engine.selection.weights import Logs

H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True)
class Vote:
    """How a vote ended. `winners` gave the answer that has the most weight, the heaviest first.

    `confidence` is the share of those that were asked who gave it: of those who answered, the share that agree; less
    the share that is missing.
    """

    winners: tuple[str, ...]
    confidence: float


def vote(answers: Mapping[str, H], shares: Mapping[str, float], num_asked: int) -> Vote | None:
    """Count the votes of those who answered, by their weights among themselves; None where nobody did.

    Equal answers have equal values in `answers`. Of two with equal weight the one that stands first wins.
    """
    total = sum(shares[name] for name in answers)
    if not answers or total <= 0.0:
        return None
    weight: dict[H, float] = {}
    for name, answer in answers.items():
        weight[answer] = weight.get(answer, 0.0) + shares[name] / total
    won = max(weight, key=weight.__getitem__)
    winners = sorted((name for name, answer in answers.items() if answer == won), key=shares.__getitem__, reverse=True)
    agree, missing = len(winners) / len(answers), 1.0 - len(answers) / num_asked
    return Vote(tuple(winners), agree * (1.0 - missing))


def losses(answers: Mapping[str, H], label: H) -> dict[str, float]:
    """Return the loss of each variant that answered: 0 for the right label, 1 for another."""
    return {name: float(answer != label) for name, answer in answers.items()}


def change(losses: Mapping[str, float], eta: float) -> Logs:
    """Return what is to be added to the logarithms after each of the observed had its loss in [0, 1]."""
    return {name: -eta * loss for name, loss in losses.items()}
