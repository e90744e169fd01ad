"""The starts of a revision's instances: how many were ordered, and how long those took that got ready."""

from __future__ import annotations

from dataclasses import dataclass

from faas.metrics import Histogram
from faas.platform.instances import Instance

BOUNDS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
TOTAL = "total"
"""Among the phases of a start: all of it, from the order until the instance was ready."""


@dataclass(frozen=True)
class ColdStart:
    """One start of an instance: when it was ready (monotonic seconds), and the seconds that its phases took."""

    instance: str
    ready_at: float
    total_s: float
    how: str
    phases: dict[str, float]


class Starts:
    """What a control loop remembers of them; `seconds` by phase."""

    def __init__(self) -> None:
        self.num_ordered = 0
        self.last: ColdStart | None = None
        self.seconds: dict[str, Histogram] = {}

    @property
    def num_ready(self) -> int:
        """How many got ready."""
        return sum(self.seconds[TOTAL].counts) if TOTAL in self.seconds else 0

    def add(self, made: Instance) -> None:
        """Count an instance in that has just become ready."""
        assert made.ready_at is not None
        start = ColdStart(made.id, made.ready_at, made.ready_at - made.ordered_at, made.how, made.phases)
        self.last = start
        for phase, duration_s in ({TOTAL: start.total_s} | made.phases).items():
            self.seconds.setdefault(phase, Histogram(BOUNDS_S)).observe(duration_s)
