"""The weights of each context: one user, one session, or all who name none."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from faas.engine.selection import weights
from faas.engine.selection.weights import Logs

MOST: Final = 4096
"""Contexts that are kept; past it those that have learned nothing for longest are forgotten."""

Changes = Mapping[str, Logs]
"""By context: what was added to the logarithms, so that what several instances learn can be added up."""


class Contexts:
    """Weights by context. `names` are the variants that there are, `least` the least share of one."""

    def __init__(self, names: Sequence[str], least: float, most: int = MOST) -> None:
        self.names = tuple(names)
        self._least = least
        self._most = most
        self._logs: OrderedDict[str, Logs] = OrderedDict()
        self._even = weights.even(names)

    def logs(self, context: str) -> Logs:
        """Return the weights of a context; even ones where it has learned nothing."""
        return self._logs.get(context, self._even)

    def add(self, changes: Changes) -> None:
        """Add what was learned."""
        for context, change in changes.items():
            self._logs[context] = weights.changed(self.logs(context), change, self._least)
            self._logs.move_to_end(context)
            if len(self._logs) > self._most:
                self._logs.popitem(last=False)

    def replace(self, learned: Mapping[str, Logs]) -> None:
        """Take `learned` in place of all that was known. Variants that are new there or here are fitted in."""
        self._logs = OrderedDict((context, weights.fitted(logs, self.names)) for context, logs in learned.items())

    def learned(self) -> dict[str, Logs]:
        """Return the weights of all contexts that have learned something, the latest last."""
        return dict(self._logs)


def added(changes: Changes, more: Changes) -> dict[str, Logs]:
    """Return the sum of two sets of changes; what changed last stands last."""
    total: dict[str, Logs] = {context: dict(change) for context, change in changes.items()}
    for context, change in more.items():
        held = total.pop(context, {})
        total[context] = {name: held.get(name, 0.0) + change.get(name, 0.0) for name in {**held, **change}}
    return total
