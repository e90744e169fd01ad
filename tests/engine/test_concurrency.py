from __future__ import annotations

from faas.engine.concurrency import Concurrency

WAIT_S = 0.005


def after_a_batch(num_items: int, num_queued: int, now: float = 100.0) -> Concurrency:
    made = Concurrency(WAIT_S, max_batch_size=32)
    made.ended(num_items, num_queued, now)
    return made


def test_nothing_is_expected_at_first() -> None:
    assert Concurrency(WAIT_S, 32).expected(oldest_at=100.0) == 1


def test_the_last_batch_and_those_who_queued_are_expected_again() -> None:
    assert after_a_batch(5, 3).expected(oldest_at=100.001) == 8


def test_never_more_than_a_full_batch_is_worth_waiting_for() -> None:
    assert after_a_batch(32, 8).expected(oldest_at=100.0) == 32


def test_a_caller_alone_after_a_burst_is_alone() -> None:
    made = after_a_batch(32, 0)
    assert made.expected(oldest_at=100.0 + WAIT_S) == 32
    assert made.expected(oldest_at=100.0 + WAIT_S + 0.001) == 1


def test_a_gather_that_fell_short_lowers_what_is_expected() -> None:
    made = after_a_batch(8, 0)
    made.gathered(6, oldest_at=100.001)
    assert made.expected(oldest_at=100.002) == 6


def test_a_gather_that_filled_changes_nothing() -> None:
    made = after_a_batch(8, 0)
    made.gathered(8, oldest_at=100.001)
    assert made.expected(oldest_at=100.002) == 8


def test_on_trust_a_gather_counts_from_when_the_executor_fell_idle() -> None:
    made = after_a_batch(31, 1)
    assert made.gather_from(oldest_at=99.99) == 100.0
    assert made.gather_from(oldest_at=100.002) == 100.002


def batches_until_trusted(made: Concurrency) -> int:
    for batch in range(200):
        if made.gather_from(oldest_at=made_idle_since(made) - 1.0) == made_idle_since(made):
            return batch
        made.ended(31, 1, 100.0)
    raise AssertionError("never trusted again")


def made_idle_since(made: Concurrency) -> float:
    return 100.0


def test_trust_that_was_disappointed_returns_later_each_time_and_sooner_once_it_pays() -> None:
    made = after_a_batch(31, 1)
    pauses = []
    for _ in range(8):
        made.gathered(4, oldest_at=99.99)
        pauses.append(batches_until_trusted(made))
    assert pauses == [2, 4, 8, 16, 32, 64, 64, 64]
    made.gathered(32, oldest_at=99.99)
    assert batches_until_trusted(made) == 0
    made.gathered(4, oldest_at=99.99)
    assert batches_until_trusted(made) == 64


def test_a_gather_that_was_not_on_trust_costs_no_trust() -> None:
    made = after_a_batch(8, 0)
    made.gathered(2, oldest_at=100.001)
    assert batches_until_trusted(made) == 0
