"""Until when calls must be over, with one timer for all that have as much time."""

import asyncio
from typing import Protocol


class Timed(Protocol):
    """A call that has only so much time."""

    def overdue(self) -> None:
        """Its time is up."""


class Line:
    """Calls that each have `most_s`, in the order in which they began: only the first can be the next to be overdue.

    So a call costs no timer of its own; there is one, while a call is here or was a short time ago.
    """

    __slots__ = ("_began_s", "_loop", "_most_s", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, most_s: float) -> None:
        self._loop = loop
        self._most_s = most_s
        self._began_s: dict[Timed, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, call: Timed) -> None:
        """The time of `call` begins."""
        self._began_s[call] = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._most_s, self._look)

    def end(self, call: Timed) -> None:
        """`call` is over."""
        self._began_s.pop(call, None)

    def _look(self) -> None:
        while self._began_s:
            call, began_s = next(iter(self._began_s.items()))
            left_s = began_s + self._most_s - self._loop.time()
            if left_s > 0:
                self._timer = self._loop.call_later(left_s, self._look)
                return
            del self._began_s[call]
            call.overdue()  # which may begin again
        self._timer = None


class Deadlines(dict[float, Line]):
    """The lines of an activator, by the seconds that each of their calls has; made when they are asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop

    def __missing__(self, most_s: float) -> Line:
        line = self[most_s] = Line(self._loop, most_s)
        return line
