from __future__ import annotations

import math

import pytest

from faas.engine.levels import Levels
from faas.engine.queue import CallQueue
from faas.messages import Call, Context
from faas.spec import Batching, QueuePolicy


def waiting(name: str, priority: int = 0, *, rows: int = 1, timeout_s: float = math.inf) -> Call:
    made = Call({}, Context(name), priority)
    made.num_rows, made.queued_at, made.queue_timeout_s = rows, 100.0, timeout_s
    return made


def names(queue: CallQueue) -> list[str]:
    return [call.context.request_id for call in queue.in_order()]


def never(call: Call) -> float:
    return math.inf


@pytest.mark.parametrize(
    ("default", "levels"), [(None, {0: 1, 1: 1, 3: 3, 4: 3, 99: 3}), (2, {0: 2, 1: 1, 3: 3, 4: 2, 99: 2})]
)
def test_d4_a_call_without_a_level_or_beyond_them_has_one(default: int | None, levels: dict[int, int]) -> None:
    made = Levels.of(Batching(priorities=3, default_priority=default))
    assert {stated: made.of_call(waiting("a", stated)) for stated in levels} == levels


def test_a_level_has_its_own_policy_or_that_of_all() -> None:
    own, others = QueuePolicy(max_queue=1), QueuePolicy(max_queue=9)
    made = Levels.of(Batching(priorities=2, queue=others, levels={2: own}))
    assert [made.policy(waiting("a", level)) for level in (1, 2)] == [others, own]
    assert [made.most(level) for level in (1, 2)] == [9, 1]
    assert Levels.of(None).most(1) == math.inf


def test_d4_what_a_caller_states_only_shortens_its_time() -> None:
    strict, lenient = QueuePolicy(timeout_ms=500), QueuePolicy(timeout_ms=500, allow_timeout_override=True)
    boundless = QueuePolicy(allow_timeout_override=True)
    found = [
        Levels([policy]).late_at(waiting("a", timeout_s=stated))
        for policy in (strict, lenient, boundless)
        for stated in (math.inf, 0.2, 0.9)
    ]
    assert found == [100.5, 100.5, 100.5, 100.5, 100.2, 100.5, math.inf, 100.2, 100.9]
    assert [Levels([policy]).times_out for policy in (QueuePolicy(), strict, boundless)] == [False, True, True]


def test_d3_a_level_that_is_full_takes_no_more_and_rows_count() -> None:
    queue = CallQueue(never, levels=Levels([QueuePolicy(), QueuePolicy(max_queue=4)]))
    first = waiting("first", 2, rows=3)
    queue.push(first)
    assert not queue.has_room(waiting("a", 2, rows=2))
    assert queue.has_room(waiting("a", 2))
    assert queue.has_room(waiting("a", 1, rows=100))
    first.leave()
    queue.discard(first)
    assert queue.has_room(waiting("a", 2, rows=4))
    queue.push(waiting("b", 2, rows=4))
    assert queue.pop() is not None
    assert queue.has_room(waiting("a", 2, rows=4))


def test_d5_a_late_call_stands_behind_its_level_and_before_the_next() -> None:
    queue = CallQueue(never, levels=Levels([QueuePolicy(timeout_ms=1, timeout_action="delay")] * 2))
    late = waiting("late", 1)
    for call in (late, waiting("young", 1), waiting("low", 2)):
        queue.push(call)
    queue.put_last(late)
    queue.push(waiting("younger", 1))
    assert (len(queue), queue.num_calls) == (4, 4)
    assert names(queue) == ["young", "younger", "late", "low"]
    assert [call.context.request_id for call in queue].count("late") == 1
    assert [queue.pop().context.request_id for _ in range(4)] == ["young", "younger", "late", "low"]  # type: ignore[union-attr]
    assert queue.pop() is None


def test_a_late_call_that_leaves_is_gone() -> None:
    queue = CallQueue(never, levels=Levels([QueuePolicy(timeout_ms=1, timeout_action="delay")]))
    late = waiting("late")
    queue.push(late)
    queue.put_last(late)
    late.leave()
    queue.discard(late)
    assert (len(queue), names(queue), queue.pop()) == (0, [], None)


def test_what_counts_are_rows_and_what_does_not_fit_stays() -> None:
    queue = CallQueue(never)
    for name, rows in (("a", 3), ("b", 5), ("c", 1)):
        queue.push(waiting(name, rows=rows))
    assert (len(queue), queue.num_calls) == (9, 3)
    assert queue.pop(2) is None
    assert queue.pop(3).context.request_id == "a"  # type: ignore[union-attr]
    assert queue.pop(4) is None
    assert (len(queue), queue.num_calls, names(queue)) == (6, 2, ["b", "c"])


def test_the_order_is_known_without_taking_anything() -> None:
    queue = CallQueue(never, levels=Levels([QueuePolicy()] * 3))
    calls = [waiting(str(at), (at * 7) % 3 + 1) for at in range(40)]
    for call in calls:
        queue.push(call)
    for call in calls[::4]:
        call.leave()
        queue.discard(call)
    expected = names(queue)
    popped = []
    while (call := queue.pop()) is not None:
        popped.append(call.context.request_id)
    assert popped == expected
    assert len(popped) == 30
