from __future__ import annotations

import asyncio
import math

from faas.engine.last_moment import LastMoment

from .virtual import now, virtually


class Line:
    """Moments, the next one first; `given_up` are when each was given up."""

    def __init__(self, *moments: float) -> None:
        self.moments = list(moments)
        self.given_up: list[float] = []
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        self.watch = LastMoment(loop.time, self._next, self._give_up)

    def _next(self) -> float:
        return self._began + self.moments[0] if self.moments else math.inf

    def _give_up(self, _: float) -> None:
        self.moments.pop(0)
        self.given_up.append(now())


def test_each_is_given_up_when_its_moment_has_come() -> None:
    async def scenario() -> None:
        line = Line(1.0, 1.0, 2.5)
        line.watch.look()
        await asyncio.sleep(5.0)
        assert line.given_up == [1.0, 1.0, 2.5]

    virtually(scenario())


def test_a_moment_that_has_become_an_earlier_one_is_told_and_a_later_one_found() -> None:
    async def scenario() -> None:
        line = Line(3.0)
        line.watch.look()
        line.moments[0] = 1.0
        line.watch.look()
        await asyncio.sleep(0.5)
        line.moments[0] = 2.0
        await asyncio.sleep(5.0)
        assert line.given_up == [2.0]

    virtually(scenario())


def test_what_is_watched_no_longer_is_not_given_up() -> None:
    async def scenario() -> None:
        line = Line(1.0)
        line.watch.look()
        line.watch.close()
        await asyncio.sleep(5.0)
        assert line.given_up == []

    virtually(scenario())
