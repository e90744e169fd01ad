from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faas.engine.levels import Levels
from faas.engine.queue import CallQueue
from faas.messages import Call, Context
from faas.spec import QueuePolicy


def waiting(name: str, priority: int = 1, *, at: float = 0.0, deadline: float = math.inf) -> Call:
    made = Call({"name": name}, Context(name, deadline=deadline), priority)
    made.queued_at = at
    return made


def levels(num: int) -> Levels:
    return Levels([QueuePolicy()] * num)


def due(call: Call) -> float:
    return call.deadline


def drained(queue: CallQueue) -> list[str]:
    names = []
    while (call := queue.pop()) is not None:
        names.append(call.context.request_id)
    return names


def test_within_a_level_calls_leave_as_they_came() -> None:
    queue = CallQueue(due)
    for name in "abc":
        queue.push(waiting(name))
    assert drained(queue) == ["a", "b", "c"]


def test_level_one_leaves_first_and_a_level_out_of_range_is_the_lowest() -> None:
    queue = CallQueue(due, levels=levels(2))
    for name, priority in [("low", 2), ("beyond", 9), ("high", 1), ("below", 0)]:
        queue.push(waiting(name, priority))
    assert drained(queue) == ["high", "below", "low", "beyond"]


def test_without_levels_priority_changes_nothing() -> None:
    queue = CallQueue(due)
    queue.push(waiting("a", 5))
    queue.push(waiting("b", 1))
    assert drained(queue) == ["a", "b"]


def test_another_order_may_be_given() -> None:
    queue = CallQueue(due, order=due)
    queue.push(waiting("late", deadline=9.0))
    queue.push(waiting("soon", deadline=3.0))
    assert drained(queue) == ["soon", "late"]


def test_a_call_that_is_done_counts_no_more_and_is_not_handed_out() -> None:
    queue = CallQueue(due)
    calls = [waiting(name, at=at) for at, name in enumerate("abc", start=1)]
    for call in calls:
        queue.push(call)
    calls[0].leave()
    queue.discard(calls[0])
    assert (len(queue), queue.oldest_at) == (2, 2.0)
    assert drained(queue) == ["b", "c"]


def test_a_call_that_ends_behind_its_back_is_noticed_once() -> None:
    queue = CallQueue(due)
    queue.push(call := waiting("a"))
    call.leave()
    with pytest.raises(RuntimeError, match="1 calls in the queue were ended"):
        queue.pop()
    assert (len(queue), queue.pop()) == (0, None)


def test_what_is_oldest_and_what_is_due_first_are_known_at_every_moment() -> None:
    queue = CallQueue(due, levels=levels(2))
    assert (queue.oldest_at, queue.earliest_due) == (math.inf, math.inf)
    queue.push(waiting("a", 2, at=1.0, deadline=50.0))
    queue.push(waiting("b", 1, at=2.0, deadline=9.0))
    assert (queue.oldest_at, queue.earliest_due) == (1.0, 9.0)
    queue.pop()
    assert (queue.oldest_at, queue.earliest_due) == (1.0, 50.0)
    queue.pop()
    assert (queue.oldest_at, queue.earliest_due) == (math.inf, math.inf)


def test_calls_that_left_do_not_pile_up() -> None:
    queue = CallQueue(due)
    stays = waiting("stays")
    queue.push(stays)
    for _ in range(1000):
        gone = waiting("gone")
        queue.push(gone)
        gone.leave()
        queue.discard(gone)
    assert len(queue) == 1
    assert len(queue._heap) < 20
    assert drained(queue) == ["stays"]


@given(st.lists(st.one_of(st.tuples(st.just("push"), st.integers(1, 4)), st.just(("pop", 0)), st.just(("leave", 0)))))
def test_it_agrees_with_a_sorted_list(steps: list[tuple[str, int]]) -> None:
    queue, model = CallQueue(due, levels=levels(3)), []
    for at, (step, priority) in enumerate(steps):
        if step == "push":
            call = waiting(str(at), priority, at=float(at), deadline=1000.0 - at)
            queue.push(call)
            model.append((min(priority, 3), at, call))
            model.sort(key=lambda entry: entry[:2])
        elif step == "pop":
            assert queue.pop() is (model.pop(0)[-1] if model else None)
        elif model:
            gone = model.pop(len(model) // 2)[-1]
            gone.leave()
            queue.discard(gone)
        assert len(queue) == len(model)
        assert queue.oldest_at == min((c.queued_at for *_, c in model), default=math.inf)
        assert queue.earliest_due == min((c.deadline for *_, c in model), default=math.inf)
        assert sorted(c.queued_at for c in queue) == sorted(c.queued_at for *_, c in model)
