from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

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
    assert promise().answered_in_s(0, 1, fills=False) == 0.006
    assert promise().answered_in_s(44, 1, fills=False) == 0.050
    assert promise().answered_in_s(45, 1, fills=False) == 0.050 + 0.006


def test_where_batches_fill_they_are_of_the_size_that_is_aimed_at() -> None:
    assert promise().answered_in_s(0, 1, fills=True) == 0.025
    assert promise().answered_in_s(20, 1, fills=True) == 2 * 0.025
    assert promise().answered_in_s(40, 20, fills=True) == 3 * 0.025
    assert promise().answered_in_s(0, 30, fills=True) == 0.035, "rows that nobody is ahead of run whole"


def test_what_may_run_together_takes_one_batch() -> None:
    assert promise().together_s(64) == 0.069
    assert promise().together_s(65) == math.inf


def hopeless_in_ms(num: int, made: Promise, idle_since: float = 0.0, surplus: float = 0.0) -> float:
    return round((in_time.hopeless_at(Queue(num), made, idle_since, surplus) - NOW) * 1000, 6)


def test_the_head_is_hopeless_once_those_with_it_would_make_it_late() -> None:
    assert hopeless_in_ms(20, promise()) == 23.75, "1.25 ms are kept for the way to the caller"
    assert hopeless_in_ms(3, promise()) == 42
    assert hopeless_in_ms(20, promise(is_confident=False)) == 50
    assert hopeless_in_ms(1, promise()) == math.inf, "it is spared, and alone"
    assert hopeless_in_ms(1, promise(), NOW + 0.001) == 50


def test_one_that_will_be_full_counts_as_full() -> None:
    assert hopeless_in_ms(3, promise(), surplus=0.01) == 23.75
    assert hopeless_in_ms(1, promise(), NOW + 0.001, surplus=0.01) == 50, "alone it would be run"


def test_where_more_come_than_are_served_it_is_told_as_early_as_those_fill_the_batch_who_come_yet() -> None:
    assert hopeless_in_ms(20, promise(), surplus=0.1) == 22.5, "a tenth of 25 ms earlier"
    assert hopeless_in_ms(20, promise(), surplus=0.5) == 17.5, "and never more than three tenths"


def test_a_batch_that_takes_far_less_than_half_of_the_promise_may_begin_late() -> None:
    long = Queue(64, head_due=NOW + 0.4)
    assert in_time.hopeless_at(long, promise(slo_s=0.4), 0.0, 0.01) == pytest.approx(NOW + 0.4 - 0.07245 - 0.005)


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
