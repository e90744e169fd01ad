"""The starts of a revision's instances: how many were ordered, how long those took that got ready, why one failed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from faas.metrics import Histogram
from faas.platform.instances import Instance
from warmpool.policy import SOUND_AFTER_S, Backoff

BOUNDS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
BRIEF_S = 1.0
"""A warm-up that takes no longer is no more than a call is given the time for."""
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
    """What a control loop remembers of them; `seconds` by phase. `failure` says why the last came to nothing."""

    def __init__(self) -> None:
        self.num_ordered = 0
        self.last: ColdStart | None = None
        self.seconds: dict[str, Histogram] = {}
        self.failure: str | None = None
        self._backoff = Backoff()
        self._proofs: list[asyncio.Future[str | None]] = []

    @property
    def num_ready(self) -> int:
        """How many got ready."""
        return sum(self.seconds[TOTAL].counts) if TOTAL in self.seconds else 0

    @property
    def warm_up_is_brief(self) -> bool:
        """Whether the example inputs have run, and not for long: a call may then do what they are for."""
        warm_ups = self.seconds.get("warmup")
        return warm_ups is not None and warm_ups.total <= BRIEF_S * sum(warm_ups.counts)

    @property
    def is_proving(self) -> bool:
        """Whether somebody waits for the outcome of the next start."""
        return any(not proof.done() for proof in self._proofs)

    def wait_s(self, now: float) -> float:
        """Return the seconds until the next may be tried, after some have failed."""
        return self._backoff.wait_s(now)

    def prove(self) -> asyncio.Future[str | None]:
        """Return the outcome of the next start: why there is no instance, or None once one is ready."""
        self._proofs.append(asyncio.get_running_loop().create_future())
        return self._proofs[-1]

    def succeeded(self, made: Instance) -> None:
        """Count an instance that has just become ready."""
        assert made.ready_at is not None
        start = ColdStart(made.id, made.ready_at, made.ready_at - made.ordered_at, made.how, made.phases)
        self.last = start
        for phase, duration_s in ({TOTAL: start.total_s} | made.phases).items():
            self.seconds.setdefault(phase, Histogram(BOUNDS_S)).observe(duration_s)
        self.failure = None
        self._settle(None)

    def refused(self, why: str) -> None:
        """Record why there can be no instance now."""
        self.failure = why
        self._settle(why)

    def failed(self, made: Instance, why: str, now: float, *, has_answered: bool) -> None:
        """Record an instance that has ended by itself: a failed start, unless it was sound for a while."""
        lived_s = now - made.ready_at if made.ready_at is not None else 0.0
        self.failure = why
        self._backoff = self._backoff.after(served=has_answered or lived_s >= SOUND_AFTER_S, now=now)
        if made.ready_at is None:
            self._settle(why)

    def stopped(self, made: Instance) -> None:
        """Record an instance that was stopped."""
        if made.ready_at is None:
            self._settle("it was stopped before it was ready")

    def _settle(self, failure: str | None) -> None:
        for proof in self._proofs:
            if not proof.done():
                proof.set_result(failure)
        self._proofs.clear()
