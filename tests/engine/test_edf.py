from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from faas.engine import edf
from faas.engine.edf import PATIENCE_S, Batch, Head, Limits

NOW = 100.0


def line(size: int) -> float:
    """A batch of b takes b + 5 ms."""
    return (size + 5) / 1000


LIMITS = Limits(target=20, most=64, seconds=line)


def due_in(ms: float, *, size: int = 1, spared: bool = False) -> Head:
    return Head(NOW + ms / 1000, size, spared)


def size_of(head: Head, num_waiting: int, limits: Limits = LIMITS) -> int | None:
    batch = edf.choose(head, num_waiting, limits, NOW)
    return None if batch is None else batch.size


def test_what_waits_runs_together_up_to_what_is_aimed_at() -> None:
    assert size_of(due_in(25.001), 7) == 7
    assert size_of(due_in(25.001), 20) == 20
    assert size_of(due_in(25.001), 300) == 20


def test_a_batch_grows_while_its_head_stays_in_time() -> None:
    assert size_of(due_in(30.001), 300) == 25
    assert size_of(due_in(30.001), 22) == 22
    assert size_of(due_in(5000), 300) == 64, "and no further than it may"


def test_the_head_is_given_up_once_a_batch_of_the_size_aimed_at_is_too_long_for_it() -> None:
    assert size_of(due_in(24.9), 20) is None
    assert size_of(due_in(24.9), 19) == 19
    assert size_of(due_in(11.9), 7) is None
    assert size_of(due_in(-1), 2) is None


def test_it_starts_when_its_head_can_still_be_in_time() -> None:
    batch = edf.choose(due_in(40), 10, LIMITS, NOW)
    assert batch == Batch(10, pytest.approx(NOW + 0.025))


def test_one_that_waits_alone_runs_though_it_will_be_late() -> None:
    batch = edf.choose(due_in(3), 1, LIMITS, NOW)
    assert batch == Batch(1, pytest.approx(NOW - 0.003), late=True)
    assert size_of(due_in(3), 2) is None, "the next one may still be in time"


def test_one_that_is_late_already_runs_only_if_it_came_when_nothing_was_in_hand() -> None:
    assert size_of(due_in(-1), 1) is None
    assert size_of(due_in(-1, spared=True), 1) == 1
    assert size_of(due_in(-1, spared=True), 2) is None


def test_rows_count_and_a_head_larger_than_the_aim_runs_whole() -> None:
    assert size_of(due_in(30.001, size=3), 8) == 8
    assert size_of(due_in(60, size=40), 40) == 40
    assert size_of(due_in(40, size=40), 60) is None, "45 ms are too long for it"
    assert size_of(due_in(40, size=40), 40) == 40, "alone it runs whatever it takes"


def test_the_moment_from_which_a_head_is_hopeless_is_that_from_which_it_is_given_up() -> None:
    assert edf.hopeless_at(due_in(50), 20, LIMITS) == pytest.approx(NOW + 0.025)
    assert edf.hopeless_at(due_in(50), 300, LIMITS) == pytest.approx(NOW + 0.025)
    assert edf.hopeless_at(due_in(50), 7, LIMITS) == pytest.approx(NOW + 0.038)
    assert edf.hopeless_at(due_in(50), 1, LIMITS) == NOW + 0.050
    assert edf.hopeless_at(due_in(50, spared=True), 1, LIMITS) == math.inf


def test_while_nothing_is_known_of_times_only_what_is_late_is_given_up() -> None:
    unknown = Limits(4, 4, lambda size: 0.0)
    assert size_of(due_in(0.001), 300, unknown) == 4
    assert size_of(due_in(-0.001), 300, unknown) is None


def test_the_one_that_must_start_soonest_goes_first() -> None:
    soon, later = Batch(5, NOW + 0.010), Batch(50, NOW + 0.020)
    assert edf.turn(soon, NOW) < edf.turn(later, NOW)


def test_without_a_promise_it_is_as_urgent_as_anybody_once_its_patience_is_over() -> None:
    asked_at = NOW - PATIENCE_S
    for start_by in (NOW, NOW + 0.001, NOW + 60.0):
        assert edf.turn(None, asked_at) <= edf.turn(Batch(1, start_by), NOW)
    assert edf.turn(Batch(1, NOW + 0.1), NOW) < edf.turn(None, NOW)


def test_one_that_is_late_whatever_happens_goes_behind_those_who_are_not() -> None:
    assert edf.turn(Batch(1, NOW - 1.0, late=True), NOW) == edf.turn(None, NOW)


def test_a_distant_promise_is_no_worse_than_none() -> None:
    assert edf.turn(Batch(1, NOW + 60.0), NOW) == edf.turn(None, NOW)


def test_a_backlog_is_full_batches_and_a_rest() -> None:
    assert edf.backlog_s(0, 20, line) == 0.0
    assert edf.backlog_s(20, 20, line) == pytest.approx(0.025)
    assert edf.backlog_s(47, 20, line) == pytest.approx(0.025 + 0.025 + 0.012)


@given(st.integers(1, 50), st.integers(0, 60), st.integers(0, 60))
def test_halving_finds_what_counting_does(low: int, more: int, bound: int) -> None:
    expected = max([low] + [size for size in range(low, low + more + 1) if size <= bound])
    assert edf.largest(low, low + more, lambda size: size <= bound) == expected


@given(
    st.floats(-0.01, 0.2),
    st.integers(1, 8),
    st.integers(0, 100),
    st.integers(1, 40),
    st.integers(0, 40),
    st.booleans(),
)
def test_whatever_runs_is_in_time_or_said_to_be_late(
    left_s: float, size: int, behind: int, target: int, more: int, spared: bool
) -> None:
    limits = Limits(target, target + more, line)
    batch = edf.choose(Head(NOW + left_s, size, spared), size + behind, limits, NOW)
    if batch is None:
        assert behind or NOW + left_s <= NOW
        return
    assert size <= batch.size <= max(size, min(size + behind, limits.most))
    assert batch.late == (batch.start_by + 1e-9 < NOW) or math.isclose(NOW, batch.start_by)
    if batch.late:
        assert not behind
    else:
        assert NOW + line(batch.size) <= NOW + left_s + 1e-9
        assert batch.size >= min(size + behind, target)


@given(st.floats(-0.1, 0.1), st.integers(1, 30), st.integers(0, 60), st.booleans())
def test_before_the_hopeless_moment_something_runs_and_after_it_the_head_is_given_up(
    after_s: float, size: int, behind: int, spared: bool
) -> None:
    head = Head(NOW, size, spared)
    moment = edf.hopeless_at(head, size + behind, LIMITS)
    assume(abs(after_s) > 1e-6)
    now = moment + after_s if moment < math.inf else NOW + after_s
    chosen = edf.choose(head, size + behind, LIMITS, now)
    assert (chosen is None) == (after_s > 0.0 and moment < math.inf)
