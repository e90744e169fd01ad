"""The engine over a function's variants, put together as its selection says."""

from __future__ import annotations

from collections.abc import Sequence

from faas import settings
from faas.clock import Clock
from faas.engine.batcher import Batcher
from faas.engine.engine import Engine
from faas.engine.latency_model import LatencyModel
from faas.engine.selection.learner import Learner
from faas.engine.selection.selecting import Selecting
from faas.engine.selection.several import Candidate, Counts
from faas.engine.selection.state_file import StateFile
from faas.engine.selection.switching import Prediction, Switching
from faas.function import Function
from faas.spec import Selection
from faas.variants import Variant


class Selector:
    """What the selection of a function needs once for an instance: what it counts, and what it has learned.

    `learner` is None where nothing is learned.
    """

    def __init__(self, function: Function, selection: Selection, variants: Sequence[Variant], clock: Clock) -> None:
        floor = selection.accuracy_floor
        names = [held.name for held in variants if not floor or (held.accuracy or 0.0) >= floor]
        self.names = tuple(names)
        self.counts = Counts(names)
        self.learner: Learner | None = None
        self._function = function
        self._clock = clock
        if selection.learns:
            path = settings.read().home / "selection" / f"{function.name}.{selection.policy}.json"
            self.learner = Learner(names, selection, StateFile(path), clock=clock)

    def engine(self, candidates: Sequence[Candidate], batchers: Sequence[Batcher]) -> Engine:
        """Return the engine that chooses among `candidates`, the variants of `names` in this order.

        `batchers` are theirs where nothing is learned.
        """
        batching = self._function.spec.batching
        slo_s = float("inf") if batching is None or batching.slo_ms is None else batching.slo_ms / 1000.0
        if self.learner is not None:
            return Selecting(candidates, self.learner, self.counts, slo_s=slo_s, clock=self._clock)
        return Switching(
            candidates, [_prediction(held) for held in batchers], self.counts, slo_s=slo_s, clock=self._clock
        )


def _prediction(batcher: Batcher) -> Prediction:
    latency = batcher.latency
    assert isinstance(latency, LatencyModel)  # a promise is asked for where variants are
    return Prediction(latency, batcher.pending_s, lambda: batcher.max_batch_size)
