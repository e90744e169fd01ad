"""The idle times of a platform's functions: learned while it runs, and kept in a file each, so that it may start again.

They are advice and no more: a file that cannot be read or written is passed over, and its function learns anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from faas.clock import Clock, monotonic
from faas.platform.keepalive import IdleTimes, KeepAlive, plan

FORMAT = 1
WRITE_AFTER_S = 10.0
"""How long what was learned may wait to be written: so much is lost when a platform is killed."""


class _File(msgspec.Struct, frozen=True):
    """What is kept of one function; `last_at` is when it was last busy, in Unix seconds, None for never."""

    format: int
    known: IdleTimes
    last_at: float | None


class Habit:
    """One function's idle times, and for how long they say to keep it warm. `changed` is told of all that is new."""

    def __init__(
        self, known: IdleTimes | None = None, *, last_s: float = -math.inf, changed: Callable[[], object] = lambda: None
    ) -> None:
        self._changed = changed
        self._last_s = last_s
        self.known = known or IdleTimes()
        self.kept: KeepAlive = plan(self.known)
        """When to be warm after the last answer."""

    @property
    def last_s(self) -> float:
        """When the function was last busy, on the monotonic clock; minus infinity if it never was."""
        return self._last_s

    @last_s.setter
    def last_s(self, last_s: float) -> None:
        if last_s != self._last_s:
            self._last_s = last_s
            self._changed()

    def returned(self, idle_s: float) -> None:
        """A request came after so many idle seconds; infinity for the first."""
        known = self.known if idle_s == math.inf else self.known.observe(idle_s)
        if known is not self.known:
            self.known, self.kept = known, plan(known)
            self._changed()


class Habits:
    """The habits of all functions, `NAME.json` in a folder. Made on a running loop; one process alone writes there.

    `unseen` is what is known of a function before it is first called: nothing, in bins of some length.
    """

    def __init__(
        self,
        folder: Path,
        *,
        unseen: IdleTimes | None = None,
        clock: Clock = monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._unseen = unseen
        self._clock = clock
        self._wall = wall
        self._habits: dict[str, Habit] = {}
        self._unwritten: set[str] = set()
        self._writing: asyncio.TimerHandle | None = None

    def of(self, name: str) -> Habit:
        """Return the habit of a function, as it was left by the platform that ran before."""
        if name not in self._habits:
            known, last_s = self._read(name)
            self._habits[name] = Habit(known or self._unseen, last_s=last_s, changed=lambda: self._changed(name))
        return self._habits[name]

    def forget(self, name: str) -> None:
        """Let go of a function that is gone for good."""
        self._habits.pop(name, None)
        self._unwritten.discard(name)
        with contextlib.suppress(OSError):
            self._path(name).unlink(missing_ok=True)

    def write(self) -> None:
        """Write what is not written yet."""
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        for name in self._unwritten:
            habit = self._habits[name]
            ago_s = self._clock() - habit.last_s
            last_at = None if ago_s == math.inf else self._wall() - ago_s
            path = self._path(name)
            temporary = path.with_suffix(".tmp")
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                temporary.write_bytes(msgspec.json.encode(_File(FORMAT, habit.known, last_at)))
                temporary.replace(path)
        self._unwritten.clear()

    def _read(self, name: str) -> tuple[IdleTimes | None, float]:
        try:
            file = msgspec.json.decode(self._path(name).read_bytes(), type=_File)
        except (OSError, msgspec.MsgspecError):
            return None, -math.inf
        if file.format != FORMAT:
            return None, -math.inf
        if file.last_at is None:
            return file.known, -math.inf
        return file.known, self._clock() - max(0.0, self._wall() - file.last_at)

    def _changed(self, name: str) -> None:
        self._unwritten.add(name)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().call_later(WRITE_AFTER_S, self.write)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
