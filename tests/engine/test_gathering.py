"""The adaptive policy, its guess of concurrency and the latency model together, in simulated time.

The figures are exact: callers, model and clock are simulated, and only the engine's pure parts are real.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from faas.engine.concurrency import Concurrency
from faas.engine.latency_model import LatencyModel
from faas.engine.policy import Outlook, Rules, Run, WaitUntil, decide
from faas.engine.queue import CallQueue
from faas.messages import Call, Context

MOST = 32
WAIT_S = 0.005


def flat(size: int) -> float:
    return 0.010


def linear(size: int) -> float:
    return 0.003 + 0.0015 * size


class Simulation:
    """One engine, one model, and callers who come back or who come on their own account."""

    def __init__(self, model: Callable[[int], float], idle: str = "adaptive") -> None:
        self.latencies: list[float] = []
        self.sizes: list[int] = []
        self._model = model
        self._rules = Rules(MOST, WAIT_S, idle)  # type: ignore[arg-type]
        self._queue = CallQueue(lambda call: math.inf)
        self._concurrency = Concurrency(WAIT_S, MOST)
        self._latency = LatencyModel()
        self._outlook = Outlook(self._concurrency, self._latency)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._random = random.Random(1)
        self._running = self._gathering = False
        self._now = 0.0
        self._comes_back: Callable[[], float] | None = None

    def closed_loop(self, callers: int, until_s: float, think: Callable[[random.Random], float]) -> Simulation:
        """Run `callers` who each call again `think(...)` seconds after their answer."""
        self._comes_back = lambda: think(self._random)
        for _ in range(callers):
            self._at(self._random.random() * 0.001, self._arrive)
        return self._run(until_s)

    def poisson(self, rate_per_s: float, until_s: float) -> Simulation:
        """Run callers who come at random and never again."""
        moment = 0.0
        while moment < until_s:
            moment += self._random.expovariate(rate_per_s)
            self._at(moment, self._arrive)
        return self._run(until_s)

    @property
    def num_answered(self) -> int:
        return len(self.latencies)

    def _run(self, until_s: float) -> Simulation:
        while self._events and self._events[0][0] < until_s:
            self._now, _, happen = heapq.heappop(self._events)
            happen()
        return self

    def _at(self, moment: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._order), happen))

    def _arrive(self) -> None:
        call = Call({}, Context("r"))
        call.queued_at = self._now
        self._queue.push(call)
        self._decide()

    def _decide(self) -> None:
        if self._running:
            return
        decision = decide(self._queue, self._rules, self._outlook, self._now + 1e-9)
        if isinstance(decision, WaitUntil):
            self._at(decision.moment, self._decide)
        if isinstance(decision, Run):
            if self._gathering:
                self._concurrency.gathered(len(self._queue), oldest_at=self._queue.oldest_at)
            batch = [self._queue.pop() for _ in range(decision.num_items)]
            self._running = True
            took_s = self._model(len(batch)) * (1 + 0.05 * self._random.random())
            self._at(self._now + took_s, lambda: self._end(batch, took_s))
        self._gathering = isinstance(decision, WaitUntil)

    def _end(self, batch: list[Any], took_s: float) -> None:
        self._running = False
        self._concurrency.ended(len(batch), len(self._queue), self._now)
        self._latency.observe(len(batch), took_s)
        self.sizes.append(len(batch))
        for call in batch:
            self.latencies.append(self._now - call.queued_at)
            if self._comes_back is not None:
                self._at(self._now + self._comes_back(), self._arrive)
        self._decide()


def soon(rng: random.Random) -> float:
    return 0.0002 + 0.001 * rng.random()


@pytest.mark.parametrize("callers", [2, 8, 32, 40])
def test_on_a_flat_model_callers_who_return_are_batched_at_least_as_well_as_by_a_window(callers: int) -> None:
    ours = Simulation(flat).closed_loop(callers, 10.0, soon)
    window = Simulation(flat, "wait").closed_loop(callers, 10.0, soon)
    assert ours.num_answered >= 0.98 * window.num_answered
    assert sum(ours.sizes) / len(ours.sizes) >= 0.95 * min(callers, MOST)


def test_a_caller_who_drifted_out_of_step_is_gathered_in_again() -> None:
    late_once = itertools.chain([0.008], itertools.repeat(0.001))
    ours = Simulation(flat).closed_loop(8, 5.0, lambda rng: next(late_once))
    assert set(ours.sizes[10:]) == {8}


@pytest.mark.parametrize("model", [flat, linear])
def test_a_lone_caller_never_waits(model: Callable[[int], float]) -> None:
    ours = Simulation(model).closed_loop(1, 5.0, soon)
    assert max(ours.latencies) <= 1.05 * model(1) + 1e-6


@pytest.mark.parametrize(("model", "rate_per_s"), [(flat, 400.0), (flat, 2000.0), (linear, 300.0), (linear, 500.0)])
def test_where_nobody_comes_back_gathering_costs_little(model: Callable[[int], float], rate_per_s: float) -> None:
    ours = Simulation(model).poisson(rate_per_s, 20.0).latencies
    never = Simulation(model, "now").poisson(rate_per_s, 20.0).latencies
    assert sum(ours) / len(ours) <= 1.1 * sum(never) / len(never)


def test_on_a_nearly_linear_model_batches_of_returning_callers_are_larger_and_no_slower() -> None:
    ours = Simulation(linear).closed_loop(8, 10.0, soon)
    never = Simulation(linear, "now").closed_loop(8, 10.0, soon)
    assert sum(ours.sizes) / len(ours.sizes) >= 7.5
    assert sum(never.sizes) / len(never.sizes) <= 5.0
    assert ours.num_answered >= never.num_answered
