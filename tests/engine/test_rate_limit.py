"""Check D8, the rule: who begins next where batches need units of shared resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from faas.engine.rate_limit import Line


@dataclass(eq=False)
class Seat:
    name: str
    units: Mapping[str, int] = field(default_factory=lambda: {"copies": 1})
    priority: int = 1
    standing: int = 0
    can_run: bool = True
    is_wanted: bool = True


def waiting(pools: dict[str, int], *seats: Seat) -> Line[Seat]:
    line = Line[Seat](pools)
    for seat in seats:
        line.join(seat)
    return line


def next_name(line: Line[Seat]) -> str | None:
    found = line.next()
    return None if found is None else found.name


def begun(line: Line[Seat]) -> list[str]:
    """Begin all that can go, as a limiter does."""
    names = []
    while (seat := line.next()) is not None:
        line.begin(seat)
        names.append(seat.name)
    return names


def turns(line: Line[Seat], num: int) -> str:
    """The names of the next turns, one at a time, of seats that wait again after each."""
    names = ""
    for _ in range(num):
        seat = line.next()
        assert seat is not None
        line.begin(seat)
        names += seat.name
        line.end(seat)
        line.join(seat)
    return names


def test_d8_a_priority_of_2_gets_half_the_turns_of_1() -> None:
    assert turns(waiting({"copies": 1}, Seat("a"), Seat("b", priority=2)), 12) == "abab" + "aab" * 2 + "aa"


def test_d8_turns_go_by_the_inverse_of_the_priority() -> None:
    line = waiting({"copies": 1}, Seat("a"), Seat("b", priority=2), Seat("c", priority=3))
    assert Counter(turns(line, 110)) == {"a": 60, "b": 30, "c": 20}


def test_d8_equals_go_as_they_came() -> None:
    assert turns(waiting({"copies": 1}, *map(Seat, "abc")), 7) == "abcabca"


def test_d8_who_did_not_wait_is_owed_nothing() -> None:
    old, new = Seat("a"), Seat("b")
    line = waiting({"copies": 1}, old)
    turns(line, 1000)
    line.join(new)
    assert turns(line, 6) in ("ababab", "bababa")
    line.leave(new)
    turns(line, 1000)
    line.join(new)
    assert turns(line, 6) in ("ababab", "bababa")


def test_d8_a_turn_in_which_nothing_ran_is_none() -> None:
    a, b = Seat("a"), Seat("b")
    line = waiting({"copies": 1}, a)
    line.begin(a)
    line.end(a, ran=False)
    line.join(b)
    line.join(a)
    assert turns(line, 4) == "baba"


def test_d8_all_draw_on_one_pool_and_it_is_never_overdrawn() -> None:
    seats = [Seat("a", {"copies": 2}), Seat("b"), Seat("c"), Seat("d")]
    line = waiting({"copies": 3}, *seats)
    assert begun(line) == ["a", "b"]
    line.end(seats[0])
    assert begun(line) == ["c", "d"]
    for seat in seats[1:]:
        line.end(seat)
    line.join(Seat("e", {"copies": 3}))
    assert begun(line) == ["e"]


def test_d8_all_units_of_all_resources_are_needed_at_once() -> None:
    a, both, b = Seat("a", {"memory": 1}), Seat("both", {"memory": 1, "copies": 1}), Seat("b", {"copies": 1})
    line = waiting({"memory": 1, "copies": 1}, a)
    assert begun(line) == ["a"]
    line.join(both)
    line.join(b)
    assert begun(line) == [], "b would take what the one before it needs"
    line.end(a)
    assert begun(line) == ["both"]
    line.end(both)
    assert begun(line) == ["b"]


def test_d8_a_large_one_is_not_passed_by_small_ones_for_ever() -> None:
    a, b, large = Seat("a"), Seat("b"), Seat("large", {"copies": 2})
    line = waiting({"copies": 2}, a, b)
    assert begun(line) == ["a", "b"]
    line.join(large)
    line.end(a)
    line.join(a)
    assert begun(line) == []
    line.end(b)
    assert begun(line) == ["large"]


def test_d8_who_needs_none_of_it_is_not_held_up() -> None:
    first = Seat("first", {"copies": 2})
    line = waiting({"copies": 1, "other": 1}, first, Seat("other", {"other": 1}), Seat("nothing", {}), Seat("behind"))
    assert begun(line) == ["other", "nothing"]


@pytest.mark.parametrize("why", ["can_run", "is_wanted"])
def test_d8_nobody_is_held_up_for_one_that_could_not_use_its_turn(why: str) -> None:
    first = Seat("first", {"copies": 2})
    holder = Seat("holder")
    line = waiting({"copies": 2}, holder)
    begun(line)
    line.join(first)
    line.join(Seat("small"))
    assert next_name(line) is None
    setattr(first, why, False)
    assert next_name(line) == "small"


def test_d8_who_leaves_holds_up_nobody() -> None:
    first, second = Seat("first", {"copies": 2}), Seat("second")
    line = waiting({"copies": 1}, first, second)
    assert next_name(line) is None
    assert line.leave(first)
    assert not line.leave(first)
    assert next_name(line) == "second"
    assert line.waiting == [second]
