"""The table of sequences and their slots."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faas.engine.sequences import NoSequence, Sequences
from faas.messages import Turn


def steps(change: Any) -> list[tuple[str, int]]:
    return [(step.item, step.slot) for step in change.running]


def test_calls_of_a_sequence_run_one_after_another_in_one_slot() -> None:
    table: Sequences[str] = Sequences(2, 1.0)
    first, second = Turn("a", start=True), Turn("a")
    assert steps(table.arrive("a1", first)) == [("a1", 0)]
    assert steps(table.arrive("a2", second)) == []
    assert steps(table.arrive("b1", Turn("b", start=True))) == [("b1", 1)]
    assert steps(table.done("a1", first, 0.0, computed=True)) == [("a2", 0)]
    assert (table.num_waiting, table.num_running) == (0, 2)


def test_a_call_without_a_beginning_or_after_an_end_is_none_of_a_sequence() -> None:
    table: Sequences[str] = Sequences(2, 1.0)
    with pytest.raises(NoSequence):
        table.arrive("x", Turn("a"))
    only = Turn("a", start=True, end=True)
    assert steps(table.arrive("a1", only)) == [("a1", 0)]
    with pytest.raises(NoSequence):
        table.arrive("x", Turn("a"))
    assert steps(table.done("a1", only, 0.0, computed=True)) == []
    assert steps(table.arrive("b1", Turn("b", start=True))) == [("b1", 0)]


def test_what_finds_no_slot_waits_and_gets_the_first_that_is_free() -> None:
    table: Sequences[str] = Sequences(1, 1.0)
    only = Turn("a", start=True, end=True)
    table.arrive("a1", only)
    for name in "bc":
        assert steps(table.arrive(f"{name}1", Turn(name, start=True, end=True))) == []
    assert steps(table.done("a1", only, 0.0, computed=True)) == [("b1", 0)]
    assert steps(table.done("b1", Turn("b", start=True, end=True), 0.0, computed=True)) == [("c1", 0)]


def test_an_idle_sequence_loses_its_slot() -> None:
    table: Sequences[str] = Sequences(1, 1.0)
    first = Turn("a", start=True)
    table.arrive("a1", first)
    table.arrive("b1", Turn("b", start=True))
    table.done("a1", first, 5.0, computed=True)
    assert table.idle_until == 6.0
    assert steps(table.expire(5.9)) == []
    assert steps(table.expire(6.0)) == [("b1", 0)]
    with pytest.raises(NoSequence):
        table.arrive("a2", Turn("a"))


def test_a_beginning_under_an_id_in_use_comes_after_what_was_there_and_begins_anew() -> None:
    table: Sequences[str] = Sequences(1, 1.0)
    first, last = Turn("a", start=True), Turn("a", end=True)
    table.arrive("a1", first)
    table.arrive("a2", last)
    table.arrive("again", first)
    assert steps(table.done("a1", first, 0.0, computed=True)) == [("a2", 0)]
    assert steps(table.done("a2", last, 0.0, computed=True)) == [("again", 0)]
    assert steps(table.arrive("more", Turn("a"))) == []


def test_where_the_first_call_was_never_computed_the_rest_is_lost_up_to_the_next_beginning() -> None:
    table: Sequences[str] = Sequences(1, 1.0)
    first = Turn("a", start=True)
    table.arrive("a1", first)
    table.arrive("a2", Turn("a"))
    table.arrive("again", first)
    change = table.done("a1", first, 0.0, computed=False)
    assert (steps(change), change.lost) == ([("again", 0)], ["a2"])
    change = table.done("again", first, 0.0, computed=False)
    assert (steps(change), change.lost, table.num_waiting) == ([], [], 0)
    with pytest.raises(NoSequence):
        table.arrive("a3", Turn("a"))


def test_a_call_that_gives_up_waiting_leaves_the_others_in_their_order() -> None:
    table: Sequences[str] = Sequences(1, 1.0)
    first, middle = Turn("a", start=True), Turn("a")
    table.arrive("a1", first)
    table.arrive("a2", middle)
    table.arrive("a3", middle)
    assert steps(table.done("a2", middle, 0.0, computed=False)) == []
    assert steps(table.done("a1", first, 0.0, computed=True)) == [("a3", 0)]


Action = tuple[str, str, bool, bool]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("arrive"), st.sampled_from("abcd"), st.booleans(), st.booleans()),
            st.tuples(st.sampled_from(["run", "drop"]), st.sampled_from("abcd"), st.booleans(), st.booleans()),
            st.tuples(st.just("time"), st.just(""), st.booleans(), st.booleans()),
        ),
        max_size=40,
    )
)
@settings(max_examples=60)
def test_slots_are_never_shared_and_nobody_is_forgotten(actions: list[Action]) -> None:
    table: Sequences[int] = Sequences(2, 1.0)
    turns: dict[int, Turn] = {}
    running: dict[int, int] = {}
    alive: list[int] = []
    at = 0.0

    def follow(change: Any) -> None:
        for step in change.running:
            assert step.slot in (0, 1)
            assert step.slot not in running.values()
            running[step.item] = step.slot
        for lost in change.lost:
            alive.remove(lost)

    for number, (what, name, start, end) in enumerate(actions):
        at += 0.3
        if what == "arrive":
            turns[number] = Turn(name, start, end)
            try:
                change = table.arrive(number, turns[number])
            except NoSequence:
                continue
            alive.append(number)
            follow(change)
        elif what == "time":
            follow(table.expire(at))
        else:
            pool = [one for one in alive if (one in running) == (what == "run")]
            if pool:
                one = pool[0]
                alive.remove(one)
                was_running = running.pop(one, None) is not None
                follow(table.done(one, turns[one], at, computed=was_running))
        assert table.num_running == len(running)
        assert table.num_waiting == len(alive) - len(running)
    while running:
        one = next(iter(running))
        alive.remove(one)
        running.pop(one)
        at += 0.1
        follow(table.done(one, turns[one], at, computed=True))
        follow(table.expire(at + 10))
    assert (table.num_running, table.num_waiting, alive) == (0, 0, [])
