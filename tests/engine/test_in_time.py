from __future__ import annotations

from dataclasses import dataclass, field

from faas.engine import edf, in_time
from faas.engine.edf import Batch
from faas.engine.in_time import Promise
from faas.engine.policy import GIVE_UP, Decision, Run, WaitUntil

NOW = 100.0


@dataclass
class Item:
    num_rows: int = 1
    queued_at: float = NOW


@dataclass
class Queue:
    num: int
    head: Item = field(default_factory=Item)
    head_due: float = NOW + 0.050

    def __len__(self) -> int:
        return self.num


@dataclass
class Known:
    """A batch of b takes b + 5 ms."""

    is_confident: bool = True
    largest_run: int = 64

    def at_most(self, size: int) -> float:
        return (size + 5) / 1000

    def largest_within(self, seconds: float, most: int) -> int:
        return edf.largest(1, most, lambda size: self.at_most(size) <= seconds)


def promise(slo_s: float = 0.050, most: int = 64, **known: object) -> Promise:
    return Promise(slo_s, most, Known(**known))  # type: ignore[arg-type]


def test_the_limits_are_what_two_batches_in_a_row_allow_and_what_the_settings_do() -> None:
    assert promise().limits()[:2] == (20, 64)
    assert promise(most=8).limits()[:2] == (8, 8)
    assert promise(slo_s=0.001).limits()[:2] == (1, 64)


def test_a_size_is_tried_once_half_of_it_has_run() -> None:
    assert promise(largest_run=0).limits().most == 1
    assert promise(largest_run=3).limits()[:2] == (6, 6)
    assert promise(largest_run=40).limits()[:2] == (20, 64)


def test_until_something_is_known_for_sure_only_those_are_given_up_whose_time_has_passed() -> None:
    unsure = promise(is_confident=False, largest_run=1)
    assert in_time.plan(Queue(9, head_due=NOW + 0.001), unsure, 0.0, NOW) == Batch(2, NOW + 0.001)
    assert in_time.plan(Queue(9, head_due=NOW - 0.001), unsure, 0.0, NOW) is None


def test_who_came_after_the_last_batch_had_ended_is_spared() -> None:
    late = Queue(1, Item(queued_at=NOW - 0.1), head_due=NOW - 0.05)
    assert in_time.plan(late, promise(), NOW - 0.05, NOW) is None
    spared = in_time.plan(late, promise(), NOW - 0.2, NOW)
    assert spared is not None
    assert spared.late


def test_rows_of_the_head_are_counted() -> None:
    large = Queue(90, Item(num_rows=30), head_due=NOW + 0.040)
    assert in_time.plan(large, promise(), 0.0, NOW) == Batch(35, NOW + 0.040 - 0.040)
    assert in_time.plan(Queue(90, Item(num_rows=40), head_due=NOW + 0.040), promise(), 0.0, NOW) is None


def test_the_answer_to_one_more_comes_after_those_ahead_in_batches_as_large_as_can_be_in_time() -> None:
    assert promise().answered_in_s(0, 1) == 0.006
    assert promise().answered_in_s(44, 1) == 0.050
    assert promise().answered_in_s(45, 1) == 0.050 + 0.006


def decided(num_waiting: int, planned: Batch | None, otherwise: Decision, now: float = NOW) -> Decision:
    return in_time.decide(num_waiting, planned, lambda: otherwise, now)


def test_a_head_that_is_given_up_is_refused_before_anything_else() -> None:
    assert decided(5, None, Run(5)) == GIVE_UP


def test_what_cannot_run_together_leaves_without_waiting_for_more() -> None:
    assert decided(30, Batch(20, NOW + 0.01), WaitUntil(NOW + 0.005)) == Run(20)
    assert decided(1, Batch(1, NOW - 0.01, late=True), WaitUntil(NOW + 0.005)) == Run(1, late=True)


def test_where_all_can_the_rule_without_a_promise_decides_and_waits_no_longer_than_allowed() -> None:
    assert decided(5, Batch(5, NOW + 0.010), Run(5)) == Run(5)
    assert decided(5, Batch(5, NOW + 0.010), Run(4)) == Run(4)
    assert decided(5, Batch(5, NOW + 0.010), WaitUntil(NOW + 0.005)) == WaitUntil(NOW + 0.005)
    assert decided(5, Batch(5, NOW + 0.003), WaitUntil(NOW + 0.005)) == WaitUntil(NOW + 0.003)
    assert decided(5, Batch(5, NOW), WaitUntil(NOW + 0.005)) == Run(5)
