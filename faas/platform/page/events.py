"""What the page shows, as server-sent events: all functions at first and then those that change; one in full.

    functions   {"now", "clock", "rows": [...], "gone": [names]}
    function    {"row", "samples", "starts", "meters"}, of the one that is looked at; samples since the last sent
    log         {"lines": [...]} of that function
    missing     {"detail"}: there is no function of that name (any more)

`now` is Unix time, and `clock` the monotonic one that samples and starts are on, both in seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from faas.platform.control import UnknownFunction
from faas.platform.logs import Line, LogFile
from faas.platform.page.history import History
from faas.platform.page.meters import Meters

WINDOW_S = 300
"""How far back the page shows."""
SPARK_S = 60
MIN_PAUSE_S = 0.25
"""Changes that come closer together are sent together."""
LOOK_EVERY_S = 2.0
"""What changes without a step of a control loop, as shares of traffic do, is looked for this often."""
SIGN_EVERY_S = 15.0
"""Something is sent at least this often, so that both ends find out that the other is gone."""
NUM_LOG_LINES = 500
SIGN = b": here\n\n"


class Source(Protocol):
    """What the page asks of a platform."""

    def functions(self) -> list[dict[str, Any]]:
        """Return what is known of each function."""
        ...

    def function(self, name: str) -> dict[str, Any]:
        """Return all that is known of one function. Raises UnknownFunction."""
        ...

    def log(self, name: str) -> LogFile:
        """Return a function's log. Raises UnknownFunction."""
        ...

    def addresses(self, name: str) -> dict[str, str]:
        """Return the sockets of a function's instances that are ready, by their ids."""
        ...


def encode(event: str, value: Any) -> bytes:
    """Return an event as it goes over the wire."""
    return b"event: %b\ndata: %b\n\n" % (event.encode(), msgspec.json.encode(value))


class View:
    """What one reader has been sent, of all functions and of the one called `name`."""

    def __init__(self, source: Source, history: History, meters: Meters, name: str | None) -> None:
        self.name = name
        self.lines: deque[Line] = deque(maxlen=NUM_LOG_LINES)
        self.look_after_s: float | None = None
        self._source = source
        self._history = history
        self._meters = meters
        self._rows: dict[str, dict[str, Any]] = {}
        self._function: dict[str, Any] = {}
        self._sent_until_s: int | None = None
        self._is_missing = False

    def changes(self) -> Iterator[bytes]:
        """Yield what this reader does not know yet."""
        yield from self._functions()
        if self.name is not None:
            try:
                yield from self._one(self.name)
            except UnknownFunction as error:
                if not self._is_missing:
                    yield encode("missing", {"detail": str(error)})
                self._is_missing = True
        if self.lines:
            yield encode("log", {"lines": list(self.lines)})
            self.lines.clear()

    def _functions(self) -> Iterator[bytes]:
        rows = {row["name"]: row for row in self._source.functions()}
        changed = [row for name, row in rows.items() if self._rows.get(name) != row]
        gone = [name for name in self._rows if name not in rows]
        if changed or gone or not self._rows:
            clock = self._history.clock()
            news = [row | self._recent(row["name"], clock) for row in changed]
            yield encode("functions", {"now": time.time(), "clock": clock, "rows": news, "gone": gone})
        self._rows = rows

    def _recent(self, name: str, clock: float) -> dict[str, Any]:
        """Return the samples of a row that is sent for the first time."""
        if name in self._rows:
            return {}
        return {"samples": self._history.samples(name, int(clock) - SPARK_S)}

    def _one(self, name: str) -> Iterator[bytes]:
        row = self._source.function(name)
        self._is_missing = False
        seen = (row["requests"], row["in_flight"])
        self.look_after_s = self._meters.look(name, self._source.addresses(name), seen)
        meters = self._meters.summary(name)
        starts = self._history.starts(name)
        known = {"row": _ageless(row), "starts": starts, "meters": meters}
        since_s = self._sent_until_s
        samples = self._history.samples(name, int(self._history.clock()) - WINDOW_S if since_s is None else since_s)
        if known == self._function and (not samples or samples[-1].at_s == since_s):
            return
        parts = {key: value for key, value in known.items() if self._function.get(key) != value}
        if "row" in parts:
            parts["row"] = row
        self._function = known
        self._sent_until_s = samples[-1].at_s if samples else None
        yield encode("function", parts | {"clock": self._history.clock(), "samples": samples})


def _ageless(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description without what changes by the mere passing of time."""
    instances = [{key: value for key, value in one.items() if key != "age_s"} for one in row["all_instances"]]
    return {**row, "all_instances": instances}


async def stream(view: View, source: Source, history: History, is_ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield events for one reader until `is_ended`, or until the reader leaves and this is closed."""
    with history.watch() as wake:
        follower = await _follow(view, source, wake)
        silent_s = 0.0
        try:
            while not is_ended():
                wake.clear()
                events = b"".join(view.changes())
                silent_s = 0.0 if events else silent_s + LOOK_EVERY_S
                if events or silent_s >= SIGN_EVERY_S:
                    yield events or SIGN
                    silent_s = 0.0
                    await asyncio.sleep(MIN_PAUSE_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(LOOK_EVERY_S, view.look_after_s or LOOK_EVERY_S)):
                        await wake.wait()
        finally:
            if follower is not None:
                follower.cancel()


async def _follow(view: View, source: Source, wake: asyncio.Event) -> asyncio.Task[None] | None:
    """Have the function's log added to the view: its last lines, and then each that is written."""
    if view.name is None:
        return None
    try:
        file = source.log(view.name)
    except UnknownFunction:
        return None

    async def follow() -> None:
        async for line in file.follow(NUM_LOG_LINES):
            view.lines.append(line)
            wake.set()

    task = asyncio.ensure_future(follow())
    await asyncio.sleep(0)  # then it has read the last lines
    return task
