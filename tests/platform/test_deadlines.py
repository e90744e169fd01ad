"""One timer for all calls that have as much time."""

import asyncio
from collections.abc import Callable
from typing import Any

from faas.platform.deadlines import Deadlines


class FakeLoop:
    """Time that is told, and the timers that are set."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Any:
        self.timers.append((self.now_s + delay_s, callback))
        return object()

    def advance(self, to_s: float) -> None:
        while due := [timer for timer in self.timers if timer[0] <= to_s]:
            first = min(due, key=lambda timer: timer[0])
            self.timers.remove(first)
            self.now_s = first[0]
            first[1]()
        self.now_s = to_s


class Call:
    def __init__(self, loop: FakeLoop) -> None:
        self.loop = loop
        self.overdue_at_s: list[float] = []

    def overdue(self) -> None:
        self.overdue_at_s.append(self.loop.now_s)


def made() -> tuple[FakeLoop, Deadlines]:
    loop: Any = FakeLoop()
    as_loop: asyncio.AbstractEventLoop = loop
    return loop, Deadlines(as_loop)


def test_each_call_is_overdue_in_its_own_time() -> None:
    loop, deadlines = made()
    first, second = Call(loop), Call(loop)
    deadlines[10].begin(first)
    loop.advance(103)
    deadlines[10].begin(second)
    assert len(loop.timers) == 1
    loop.advance(200)
    assert (first.overdue_at_s, second.overdue_at_s) == ([110.0], [113.0])
    assert not loop.timers


def test_a_call_that_is_over_is_never_overdue_and_those_after_it_are() -> None:
    loop, deadlines = made()
    calls = [Call(loop) for _ in range(100)]
    line = deadlines[10]
    for call in calls:
        line.begin(call)
    for call in calls[:-1]:
        line.end(call)
    loop.advance(200)
    assert [call.overdue_at_s for call in calls] == [[]] * 99 + [[110.0]]


def test_no_timer_is_left_once_nothing_is_under_way() -> None:
    loop, deadlines = made()
    call = Call(loop)
    deadlines[10].begin(call)
    deadlines[10].end(call)
    deadlines[10].end(call)
    loop.advance(111)
    assert not loop.timers
    loop.advance(300)
    deadlines[10].begin(call)
    loop.advance(400)
    assert call.overdue_at_s == [310.0]


def test_a_call_that_begins_again_has_its_whole_time_and_is_last_in_line() -> None:
    loop, deadlines = made()
    again, other = Call(loop), Call(loop)
    deadlines[10].begin(again)
    loop.advance(105)
    deadlines[10].begin(other)
    deadlines[10].end(again)
    loop.advance(107)
    deadlines[10].begin(again)
    loop.advance(200)
    assert (other.overdue_at_s, again.overdue_at_s) == ([115.0], [117.0])


def test_those_with_more_time_do_not_wait_in_line_with_those_that_have_less() -> None:
    loop, deadlines = made()
    long, short = Call(loop), Call(loop)
    deadlines[60].begin(long)
    deadlines[1].begin(short)
    loop.advance(300)
    assert (short.overdue_at_s, long.overdue_at_s) == ([101.0], [160.0])


def test_a_call_that_ends_another_as_it_is_told_does_no_harm() -> None:
    loop, deadlines = made()
    line = deadlines[10]
    other = Call(loop)

    class Ending(Call):
        def overdue(self) -> None:
            super().overdue()
            line.end(other)

    ending = Ending(loop)
    line.begin(ending)
    line.begin(other)
    loop.advance(200)
    assert (ending.overdue_at_s, other.overdue_at_s) == ([110.0], [])


def test_a_call_that_begins_again_as_it_is_told_keeps_to_one_timer() -> None:
    loop, deadlines = made()
    line = deadlines[10]

    class Again(Call):
        def overdue(self) -> None:
            super().overdue()
            if len(self.overdue_at_s) < 3:
                line.begin(self)

    again, other = Again(loop), Call(loop)
    line.begin(again)
    loop.advance(101)
    line.begin(other)
    for now_s in range(102, 130):
        loop.advance(now_s)
        assert len(loop.timers) == 1
    loop.advance(200)
    assert (again.overdue_at_s, other.overdue_at_s) == ([110.0, 120.0, 130.0], [111.0])
    assert not loop.timers
