"""Promises over whole runs, in simulated time: queue, rule and latency model are real, callers and device are not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from benchmarks.scheduling import device
from benchmarks.scheduling.rules import DeadlineOrder
from benchmarks.scheduling.workloads import WORKLOADS, Arrivals
from faas.engine import in_time
from faas.engine.in_time import Promise
from faas.engine.latency_model import LatencyModel
from faas.engine.queue import CallQueue
from faas.messages import Call, Context
from faas.spec import Batching

from .virtual import Callers, Model, item, virtual, virtually

SLO_S = 0.050
NEVER = float("inf")


def linear(size: int) -> float:
    """A batch of b takes b + 5 ms: two of 20 in a row take 50 ms, and one of 45."""
    return (size + 5) / 1000


class Simulation:
    """One engine that promises an answer within `slo_s`; its device takes `took(size, now)` for a batch."""

    def __init__(self, took: Callable[[int, float], float], slo_s: float = SLO_S, most: int = 64) -> None:
        self.model = LatencyModel()
        self.batches: list[tuple[float, int]] = []
        self.answered_at: dict[Call, float] = {}
        self.given_up_at: dict[Call, float] = {}
        self._took = took
        self._slo_s = slo_s
        self._promise = Promise(slo_s, most, self.model)
        self._queue = CallQueue(self._due, order=self._due)
        self._idle_since = -NEVER

    @property
    def in_time(self) -> float:
        """The share of all calls that were answered in time."""
        kept = sum(moment <= self._due(call) + 1e-9 for call, moment in self.answered_at.items())
        return kept / (len(self.answered_at) + len(self.given_up_at))

    def serve(self, arrivals: list[float]) -> Simulation:
        now, waiting = 0.0, sorted(arrivals, reverse=True)
        while waiting or len(self._queue):
            if not len(self._queue):
                now = max(now, waiting[-1])
            while waiting and waiting[-1] <= now:
                self._arrive(waiting.pop())
            now = self._step(now)
        return self

    def saturate(self, num_batches: int, now: float = 0.0) -> float:
        """Have more fresh calls wait at each batch than it can take. Returns when the last one ended."""
        for _ in range(num_batches):
            for _ in range(64):
                self._arrive(now)
            now = self._step(now)
            while (call := self._queue.pop()) is not None:
                call.done = True
        return now

    def _due(self, call: Call) -> float:
        return min(call.deadline, call.queued_at + self._slo_s)

    def _arrive(self, moment: float) -> None:
        call = Call({}, Context("r"))
        call.queued_at = moment
        self._queue.push(call)

    def _step(self, now: float) -> float:
        while len(self._queue):
            batch = in_time.plan(self._queue, self._promise, self._idle_since, now)
            call = self._queue.pop()
            assert call is not None
            if batch is None:
                self.given_up_at[call] = now
                continue
            calls = [call, *(more for _ in range(batch.size - 1) if (more := self._queue.pop()))]
            took_s = self._took(len(calls), now)
            self.batches.append((now, len(calls)))
            self.model.observe(len(calls), took_s)
            self.answered_at |= dict.fromkeys(calls, now + took_s)
            self._idle_since = now + took_s
            return now + took_s
        return now


def poisson(rate: float, duration_s: float, seed: int = 1) -> list[float]:
    rng, moments, now = random.Random(seed), [], 0.0
    while (now := now + rng.expovariate(rate)) < duration_s:
        moments.append(now)
    return moments


@pytest.mark.parametrize("largest", [8, 45, 200])
def test_a1_batches_grow_from_one_to_the_largest_that_keeps_the_promise(largest: int) -> None:
    ours = Simulation(lambda size, now: linear(size), slo_s=linear(largest) + 1e-6, most=1024)
    ours.saturate(12)
    sizes = [size for _, size in ours.batches]
    assert sizes[0] == 1
    assert max(sizes) <= 1.1 * largest
    first = next(at for at, size in enumerate(sizes) if size >= min(0.9 * largest, 64))
    assert first <= 8, "it doubles, and so takes far fewer batches than the size has items"
    assert all(0.9 * min(largest, 64) <= size for size in sizes[first:])


def test_a2_after_a_slow_down_and_back_a_few_batches_are_wrong() -> None:
    slow_from, slow_until = 1.0, 2.0

    def took(size: int, now: float) -> float:
        return linear(size) * (2.0 if slow_from <= now < slow_until else 1.0)

    ours = Simulation(took)
    now = 0.0
    while now < 3.0:
        now = ours.saturate(1, now)
    slow = [size for at, size in ours.batches if slow_from <= at < slow_until]
    again = [size for at, size in ours.batches if at >= slow_until]
    assert all(18 <= size <= 20 for size in slow[4:]), slow
    assert all(41 <= size <= 45 for size in again[4:]), again
    known = {call: moment for call, moment in ours.answered_at.items() if call.queued_at > 0.5}
    assert sum(moment > call.queued_at + SLO_S + 1e-9 for call, moment in known.items()) <= 3 * 45


def test_a3_at_eight_tenths_of_capacity_99_percent_are_in_time() -> None:
    workload = WORKLOADS[0]
    for seed in range(3):
        arrivals = Arrivals(workload, seed, workload.capacity * 20).at(0.8 * workload.capacity, 20.0)
        assert device.run(workload, DeadlineOrder(workload), arrivals) >= 0.99


def test_a3_holds_with_what_was_learnt_of_a_device_whose_times_vary() -> None:
    rng = random.Random(5)
    ours = Simulation(lambda size, now: linear(size) * rng.uniform(0.9, 1.05)).serve(poisson(0.8 * 800, 20.0))
    assert ours.in_time >= 0.99


def test_a4_a_lone_call_leaves_at_once() -> None:
    ours = Simulation(lambda size, now: linear(size)).serve([float(second) for second in range(20)])
    assert [at for at, _ in ours.batches] == [float(second) for second in range(20)]


@pytest.mark.parametrize("slo_ms", [None, 100])
def test_a4_a_lone_call_leaves_a_whole_engine_at_once(slo_ms: float | None) -> None:
    async def scenario() -> None:
        model = Model(takes_s=0.01)
        async with virtual(model.predict, Batching(max_batch_size=8, wait_ms=20, slo_ms=slo_ms)) as engine:
            callers = Callers(engine)
            for second in range(3):
                callers.send(item(second))
                await asyncio.sleep(1.0)
            await callers.all()
        assert model.batches == [(0.0, [0]), (1.0, [1]), (2.0, [2])]

    virtually(scenario())


@pytest.mark.parametrize("load", [1.2, 2.0, 5.0])
def test_under_overload_the_device_goes_on_working_for_those_who_still_profit(load: float) -> None:
    arrivals = poisson(load * 800, 4.0)
    ours = Simulation(lambda size, now: linear(size)).serve(arrivals)
    assert ours.in_time * len(arrivals) / 4.0 >= 0.95 * 800


def test_those_given_up_are_told_within_the_time_of_a_batch_of_becoming_hopeless() -> None:
    ours = Simulation(lambda size, now: linear(size)).serve(poisson(2 * 800, 4.0))
    assert ours.given_up_at
    assert all(moment - call.queued_at <= SLO_S + linear(45) for call, moment in ours.given_up_at.items())


@pytest.mark.parametrize(("slo_s", "took_s"), [(0.001, 0.050), (0.00001, 0.050), (0.0499, 0.050)])
def test_ba_10_a_promise_below_the_models_time_still_makes_progress_each_second(slo_s: float, took_s: float) -> None:
    ours = Simulation(lambda size, now: took_s, slo_s=slo_s, most=1).serve(poisson(100, 5.0))
    for second in range(5):
        assert sum(int(moment) == second for moment in ours.answered_at.values()) >= 5


def test_ba_10_an_estimate_that_is_far_too_high_is_found_out() -> None:
    slow = iter([2.0] * 3)
    ours = Simulation(lambda size, now: next(slow, linear(size))).serve(poisson(100, 20.0))
    assert all(moment > 19.0 or moment < 8.0 for moment in ours.given_up_at.values())
    late = [
        call for call in ours.answered_at if call.queued_at > 8.0 and ours.answered_at[call] > call.queued_at + SLO_S
    ]
    assert not late
