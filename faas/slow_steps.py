"""Steps of work in another process that take long: what is told of them while they go on.

Whoever does the work is asked where it stands. It may be unable to say, while a library keeps its interpreter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

FIRST_S = 5.0
"""How long a step goes on without a word. The next word comes after twice as long, and so on."""
LONGEST_S: Final = 60.0
ANSWER_S = 1.0
"""How long the answer is waited for, of where it stands."""


class Ongoing(str):
    """What is said of a step that goes on: to whoever shows steps it is no step of its own."""


class SlowSteps:
    """The steps of one piece of work, each said by `progress` as it begins, and again while it goes on.

    `ask` has the other process say where it stands; `stands` takes the answer. A context: with it nothing more is said.
    """

    def __init__(self, progress: Callable[[str], None], ask: Callable[[], None]) -> None:
        self._progress, self._ask = progress, ask
        self._loop = asyncio.get_running_loop()
        self._text, self._begun, self._wait_s = "", self._loop.time(), FIRST_S
        self._alarm: asyncio.TimerHandle | None = None
        self._is_asked = False

    def __enter__(self) -> SlowSteps:
        return self

    def __exit__(self, *_: object) -> None:
        self._set(None)

    def wait(self, text: str) -> None:
        """Take it that something begins whose beginning is not worth a word."""
        self._text, self._begun, self._wait_s = text, self._loop.time(), FIRST_S
        self._is_asked = False
        self._set(self._loop.call_later(FIRST_S, self._late))

    def begin(self, text: str) -> None:
        """Say that a step begins."""
        self._progress(text)
        self.wait(text)

    def stands(self, at: str) -> None:
        """Take the answer of where it stands; `at` is empty where none of the user's code is under way."""
        if self._is_asked:
            self._say(at)

    def _late(self) -> None:
        self._is_asked = True
        self._ask()
        self._set(self._loop.call_later(ANSWER_S, self._say, ""))

    def _say(self, at: str) -> None:
        self._is_asked = False
        elapsed_s = self._loop.time() - self._begun
        self._progress(Ongoing(f"still {self._text} after {elapsed_s:.0f} s{f', at {at}' if at else ''}"))
        self._wait_s = min(2 * self._wait_s, LONGEST_S)
        self._set(self._loop.call_later(self._wait_s, self._late))

    def _set(self, alarm: asyncio.TimerHandle | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = alarm
