"""Idle times that outlive the platform."""

import asyncio
import math

import pytest

from faas.platform.habits import Habit, Habits
from faas.platform.keepalive import IdleTimes, plan


class Clocks:
    """A monotonic clock that begins anywhere, and the wall's."""

    def __init__(self, monotonic, wall):
        self.monotonic_s, self.wall_s = monotonic, wall

    def habits(self, folder):
        return Habits(folder, clock=lambda: self.monotonic_s, wall=lambda: self.wall_s)


def test_a_habit_learns_from_idle_times_and_only_from_those():
    told = []
    habit = Habit(changed=lambda: told.append(None))
    habit.returned(math.inf)
    habit.returned(0.5)
    assert (habit.known, told) == (IdleTimes(), [])
    for _ in range(20):
        habit.returned(605.0)
    assert habit.known.num_within == 20
    assert habit.kept == plan(habit.known)
    assert not habit.kept.wants_warm(300.0)
    assert len(told) == 20


def test_what_was_learned_is_there_for_the_next_platform_and_so_is_when_it_was_last_busy(tmp_path):
    async def story():
        before = Clocks(500.0, 1e9)
        habits = before.habits(tmp_path / "habits")
        habit = habits.of("embed")
        habit.returned(605.0)
        habit.last_s = 490.0
        habits.write()
        after = Clocks(3.0, 1e9 + 60).habits(tmp_path / "habits").of("embed")
        assert after.known == habit.known
        assert after.last_s == pytest.approx(3.0 - 70.0)
        assert habits.of("embed") is habit
        assert habits.of("other").known == IdleTimes()
        assert habits.of("other").last_s == -math.inf

    asyncio.run(story())


def test_one_that_was_never_busy_is_so_after_a_restart_too(tmp_path):
    async def story():
        habits = Clocks(500.0, 1e9).habits(tmp_path)
        habits.of("f").returned(605.0)
        habits.write()
        assert Clocks(1.0, 2e9).habits(tmp_path).of("f").last_s == -math.inf

    asyncio.run(story())


def test_changes_are_written_after_a_while_together(tmp_path, monkeypatch):
    async def story():
        monkeypatch.setattr("faas.platform.habits.WRITE_AFTER_S", 0.01)
        habits = Clocks(500.0, 1e9).habits(tmp_path)
        habits.of("a").returned(605.0)
        habits.of("b").last_s = 499.0
        assert list(tmp_path.iterdir()) == []
        await asyncio.sleep(0.05)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]

    asyncio.run(story())


@pytest.mark.parametrize("text", [b"", b"{", b'{"format": 99, "known": {}, "last_at": null}', b"[]"])
def test_a_file_that_cannot_be_read_is_passed_over(tmp_path, text):
    (tmp_path / "f.json").write_bytes(text)
    assert Clocks(1.0, 1.0).habits(tmp_path).of("f").known == IdleTimes()


def test_a_folder_that_cannot_be_written_costs_the_knowledge_and_no_more(tmp_path):
    async def story():
        (tmp_path / "file").touch()
        habits = Clocks(1.0, 1.0).habits(tmp_path / "file" / "below")
        habits.of("f").returned(605.0)
        habits.write()
        habits.forget("f")

    asyncio.run(story())


def test_a_function_that_is_gone_is_forgotten(tmp_path):
    async def story():
        habits = Clocks(500.0, 1e9).habits(tmp_path)
        habits.of("f").returned(605.0)
        habits.write()
        habits.of("f").returned(605.0)
        habits.forget("f")
        habits.forget("never there")
        assert list(tmp_path.iterdir()) == []
        assert habits.of("f").known == IdleTimes()
        habits.write()

    asyncio.run(story())
