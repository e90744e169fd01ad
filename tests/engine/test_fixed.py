"""The rule of Triton's and TensorFlow Serving's batchers, decision by decision."""

from __future__ import annotations

import math

import numpy as np
import pytest

from faas.engine.fixed import decide
from faas.engine.policy import IDLE, Decision, Outlook, Rules, Run, WaitUntil
from faas.engine.queue import CallQueue
from faas.engine.work import Stacked
from faas.messages import Call, Context

DELAY_S = 0.010


class Nobody:
    def expected(self, oldest_at: float) -> int:
        return 1

    def gather_from(self, oldest_at: float) -> float:
        return oldest_at


class Line:
    beta_s = 0.001

    def seconds(self, size: int) -> float:
        return 0.001 * size


def queue_of(*sizes: int, at: float = 100.0, due: float = math.inf, values: list[object] | None = None) -> CallQueue:
    queue = CallQueue(lambda call: due)
    for number, size in enumerate(sizes):
        call = Call({"x": values[number] if values else number}, Context("request"))
        call.num_rows, call.queued_at = size, at
        queue.push(call)
    return queue


def ask(queue: CallQueue, now: float, *, preferred: tuple[int, ...] = (), most: int = 8, **more: object) -> Decision:
    rules = Rules(most, DELAY_S, str(more.get("idle", "wait")), preferred=preferred)  # type: ignore[arg-type]
    form = Stacked({"x": np.stack}).key if more.get("stacked") else None
    return decide(queue, rules, Outlook(Nobody(), Line(), bool(more.get("ending"))), now, form)


def test_nothing_waits() -> None:
    assert ask(queue_of(), 100.0) is IDLE


def test_d1_the_largest_preferred_size_that_is_there_leaves_at_once_and_the_rest_waits() -> None:
    assert ask(queue_of(1, 1), 100.0, preferred=(2, 6)) == Run(2)
    assert ask(queue_of(1), 100.0, preferred=(2, 6)) == WaitUntil(100.0 + DELAY_S)
    assert ask(queue_of(*[1] * 5), 100.0, preferred=(2, 6)) == Run(2)
    assert ask(queue_of(*[1] * 7), 100.0, preferred=(2, 6)) == Run(6)


def test_d1_after_the_delay_all_that_waits_leaves_whatever_its_size() -> None:
    assert ask(queue_of(1, 1, 1), 100.0 + DELAY_S, preferred=(2, 6)) == Run(3)
    assert ask(queue_of(*[1] * 20), 100.0 + DELAY_S, preferred=(2, 6)) == Run(8)


def test_d1_what_would_pass_the_largest_preferred_size_leaves_without_the_next() -> None:
    assert ask(queue_of(3, 3), 100.0, preferred=(4,)) == Run(3)
    assert ask(queue_of(5), 100.0, preferred=(4,)) == Run(5)


def test_d2_without_preferred_sizes_a_full_batch_leaves_at_once_and_others_after_the_delay() -> None:
    assert ask(queue_of(*[1] * 8), 100.0) == Run(8)
    assert ask(queue_of(*[1] * 9), 100.0) == Run(8)
    assert ask(queue_of(*[1] * 7), 100.0) == WaitUntil(100.0 + DELAY_S)
    assert ask(queue_of(*[1] * 7), 100.0 + DELAY_S) == Run(7)


def test_b1_a_call_that_does_not_fit_closes_the_batch() -> None:
    assert ask(queue_of(3, 3, 3), 100.0) == Run(6)
    assert ask(queue_of(3, 3, 2), 100.0) == Run(8)
    assert ask(queue_of(3, 3), 100.0) == WaitUntil(100.0 + DELAY_S)


def test_b4_another_shape_closes_the_batch() -> None:
    mixed: list[object] = [np.zeros(2), np.zeros(2), np.zeros(3)]
    assert ask(queue_of(1, 1, 1, values=mixed), 100.0, stacked=True) == Run(2)
    assert ask(queue_of(1, 1, 1, values=mixed), 100.0) == WaitUntil(100.0 + DELAY_S)
    assert ask(queue_of(1, 1, values=mixed), 100.0, stacked=True) == WaitUntil(100.0 + DELAY_S)


def test_without_a_delay_a_preferred_size_goes_first_and_the_rest_follows() -> None:
    assert ask(queue_of(1, 1, 1), 100.0, preferred=(2, 6), idle="now") == Run(2)
    assert ask(queue_of(1), 100.0, preferred=(2, 6), idle="now") == Run(1)


def test_when_nobody_new_comes_nothing_is_waited_for() -> None:
    assert ask(queue_of(1), 100.0, preferred=(2,), ending=True) == Run(1)


@pytest.mark.parametrize(("due", "decision"), [(100.005, WaitUntil(100.004)), (100.0005, Run(1))])
def test_an_item_in_danger_leaves_early(due: float, decision: Decision) -> None:
    found = ask(queue_of(1, due=due), 100.0)
    assert type(found) is type(decision)
    if isinstance(found, WaitUntil) and isinstance(decision, WaitUntil):
        assert found.moment == pytest.approx(decision.moment)
