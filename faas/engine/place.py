"""One of the executors of an engine, and the batch that runs there."""

from __future__ import annotations

import functools
from collections.abc import Callable

from faas.engine.batch import Report
from faas.engine.executor import Executor
from faas.engine.thread import Turn
from faas.messages import Call, num_items


class Place:
    """Where one batch at a time runs: `calls`, since `since`. An engine has one for each of its instances.

    The engine is told when the place may run something, and when what ran there has `ended`.
    """

    __slots__ = ("asked", "calls", "ended", "executor", "granted", "since")

    def __init__(
        self,
        executor: Executor,
        granted: Callable[[Place], None],
        ended: Callable[[Place, Report, BaseException | None], None],
    ) -> None:
        self.executor = executor
        self.calls: list[Call] = []
        self.since = 0.0
        self.asked = False
        self.granted = functools.partial(granted, self)
        self.ended = functools.partial(ended, self)

    @property
    def is_open(self) -> bool:
        """Whether it neither runs anything nor has asked for the right to."""
        return not (self.calls or self.asked)

    @property
    def num_items(self) -> int:
        """How many items run here, those included whose callers have left."""
        return num_items(self.calls) if self.calls else 0

    def ask(self, turn: Turn | None) -> None:
        """Ask for the right to run a batch, when it is its `turn`."""
        self.asked = True
        self.executor.lease.request(self.granted, turn)
