from __future__ import annotations

import math
from typing import Any

import pytest

from faas.engine.admission import Admission
from faas.engine.latency_model import LatencyModel
from faas.engine.levels import Levels
from faas.engine.place import Place
from faas.engine.policy import Rules
from faas.engine.queue import CallQueue
from faas.engine.strategy import Strategy
from faas.errors import DeadlineExceeded, DeadlineUnmeetable, QueueFull
from faas.messages import Call, Context
from faas.spec import QueuePolicy

NOW = 100.0
SLO_S = 0.050


class Door:
    """An admission with its queue and one place; its device takes b + 5 ms, and 20 are aimed at."""

    def __init__(self, *, num_levels: int = 1, max_queue: int = 1000, confident: bool = True) -> None:
        self.latency = LatencyModel()
        if confident:
            for size in (1, 8, 20, 45) * 3:
                self.latency.observe(size, (size + 5) / 1000)
        rules = Rules(64, 0.0, "now", SLO_S)
        executor: Any = None
        self.place = Place(executor, lambda place: None, lambda place, report, error: None)
        self.queue = CallQueue(self._due, levels=Levels([QueuePolicy()] * num_levels), order=self._due)
        self.admission = Admission(self.queue, [self.place], max_queue, Strategy(self.queue, rules, None, self.latency))

    def come(self, left_s: float = math.inf, *, priority: int = 0, num_rows: int = 1) -> None:
        """Let a call in and queue it. Raises what it is refused with."""
        call = Call({}, Context("r", deadline=NOW + left_s), priority)
        call.queued_at, call.num_rows = NOW, num_rows
        self.admission.check(call, int(bool(self.place.calls)), NOW)
        self.queue.push(call)

    def run(self, num: int, since: float = NOW) -> None:
        self.place.calls, self.place.since = [Call({}, Context("r")) for _ in range(num)], since

    def many_come(self) -> None:
        """Have more come than can be answered, of whom nobody waits any more."""
        self.come(num_rows=40)
        self.queue.pop()

    def num_let_in(self, left_s: float = math.inf, *, priority: int = 0) -> int:
        for num in range(1000):
            try:
                self.come(left_s, priority=priority)
            except DeadlineUnmeetable:
                return num
        return 1000

    def _due(self, call: Call) -> float:
        return min(call.deadline, call.queued_at + SLO_S)


def test_as_many_are_let_in_as_can_be_in_time() -> None:
    door = Door()
    door.run(15)  # for another 20 ms, so 30 ms are left for 25
    assert door.num_let_in() == pytest.approx(25, abs=1)


def test_what_has_run_for_a_while_ends_sooner() -> None:
    door = Door()
    door.run(15, since=NOW - 0.015)
    assert door.num_let_in() == pytest.approx(40, abs=1)


def test_while_nothing_is_in_hand_and_while_nothing_is_known_everybody_is_let_in() -> None:
    door = Door()
    door.come(0.001)
    with pytest.raises(DeadlineUnmeetable, match="allowed for the call"):
        door.come(0.001)
    unsure = Door(confident=False)
    unsure.run(64)
    assert unsure.num_let_in(0.001) == 1000


def test_rows_are_counted() -> None:
    door = Door()
    door.run(15)
    door.come(num_rows=20)
    with pytest.raises(DeadlineUnmeetable, match="slo_ms"):
        door.come(num_rows=10)
    door.come(num_rows=4)


def test_one_slow_batch_is_no_reason_to_let_in_less() -> None:
    door = Door()
    door.run(15, since=NOW - 0.010)
    assert door.num_let_in() == pytest.approx(35, abs=1)
    while door.queue.pop():
        pass
    assert door.num_let_in() == pytest.approx(35, abs=1), "800 a second could be answered, and 720 come"


def test_once_somebody_was_refused_and_too_many_come_as_many_are_let_in_as_the_next_batch_takes() -> None:
    door = Door()
    door.many_come()
    door.run(5)
    assert door.num_let_in() == pytest.approx(35, abs=1)
    while door.queue.pop():
        pass
    door.run(15)
    assert door.num_let_in() == pytest.approx(25, abs=1), "it grows while it is in time for the first of them"
    while door.queue.pop():
        pass
    door.run(25)
    assert door.num_let_in() == 0, "who waits for 30 ms behind it would be at the head of a full one"


def test_who_is_given_up_is_one_who_was_refused() -> None:
    door = Door()
    door.many_come()
    door.run(25)
    call = Call({}, Context("r"))
    call.queued_at = NOW - SLO_S
    door.admission.refusal(call, NOW)
    assert door.num_let_in() == 0


def test_a_limit_that_is_ones_own_says_nothing_of_the_load() -> None:
    door = Door()
    door.run(25)
    with pytest.raises(DeadlineUnmeetable):
        door.come(0.010)
    assert door.num_let_in() == pytest.approx(15, abs=1)


def test_only_those_who_leave_before_it_count_against_a_call() -> None:
    door = Door()
    door.many_come()
    door.run(5)
    door.num_let_in()
    door.come(0.036)  # 10 ms and a full batch, at whose head it is; behind the others it would be another one
    with pytest.raises(DeadlineUnmeetable):
        door.come(0.034)
    levels = Door(num_levels=2)
    levels.run(5)
    assert levels.num_let_in(priority=2) > 20
    levels.come(priority=1)


def test_there_is_room_for_a_batch_beside_the_queue_while_nothing_runs() -> None:
    door = Door(max_queue=2, confident=False)
    for _ in range(66):
        door.come()
    with pytest.raises(QueueFull):
        door.come()
    door.run(1)
    with pytest.raises(QueueFull):
        door.come()


def test_each_is_told_what_it_missed() -> None:
    door = Door()
    told = []
    for came_at, left_s in ((NOW - 1.0, 30.0), (NOW - 0.01, 30.0), (NOW - 0.01, 0.002), (NOW - 1.0, -0.1)):
        call = Call({}, Context("r", deadline=NOW + left_s))
        call.queued_at = came_at
        told.append(door.admission.refusal(call, NOW))
    assert [type(error) for error in told] == [DeadlineUnmeetable] * 3 + [DeadlineExceeded]
    assert "waited 1000 ms" in str(told[0])
    assert "by slo_ms it is due in 40 ms" in str(told[1])
    assert "by the time allowed for the call it is due in 2 ms" in str(told[2])


def test_who_makes_room_is_told_what_its_batch_would_take() -> None:
    door = Door()
    for _ in range(19):
        door.come()
    call = Call({}, Context("r"))
    call.queued_at = NOW - 0.03  # 20 ms are left: enough for it alone, and too little for the 20 that are aimed at
    told = str(door.admission.refusal(call, NOW))
    assert "would take about 25 ms, and by slo_ms it is due in 20 ms" in told


def test_who_is_given_up_behind_a_batch_is_told_how_long_that_goes_on_or_that_its_last_moment_has_come() -> None:
    door = Door()
    for _ in range(19):
        door.come()
    call = Call({}, Context("r"))
    call.queued_at = NOW - 0.0239  # 26.1 ms are left, for 25
    door.run(20, since=NOW - 0.020)
    told = str(door.admission.refusal(call, NOW))
    assert "would take about 30 ms, and by slo_ms it is due in 26.1 ms" in told
    door.run(20, since=NOW - 0.040)
    told = str(door.admission.refusal(call, NOW))
    assert "waited 24 ms in the queue, and by slo_ms it is due in 26.1 ms, about what a batch takes" in told
