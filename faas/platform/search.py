"""Functions that are asked for and not known here: the place of functions may have them, so it is looked at at once.

One look serves all who ask until it begins, and two looks begin no sooner after another than `EVERY_S`: whoever calls
what is not there costs S3 no more than that. Who asks waits for a look that begins after they have asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, Protocol

from faas.errors import DeadlineExceeded
from faas.platform.wire import LocalAnswer, problem
from faas.server.problem import Problem

EVERY_S: Final = 1.0
MAX_WAITING: Final = 1000
_LONGEST_S: Final = 300.0
"""How long a request waits for its function to be found and made ready, unless it says less itself."""

Seek = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]


class Search:
    """Looks for functions. Made on a running loop.

    `seek` brings here those of the given names that there are, and says of those that it could not bring why not.
    """

    def __init__(self, seek: Seek, *, every_s: float = EVERY_S) -> None:
        self._seek = seek
        self._every_s = every_s
        self._loop = asyncio.get_running_loop()
        self._wanted: dict[str, asyncio.Future[str | None]] = {}
        self._num_waiting = 0
        self._next_at_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._looks: set[asyncio.Task[None]] = set()
        self._is_over = False

    def find(self, name: str) -> asyncio.Future[str | None] | None:
        """Return what is done once the place was looked at for a function: with why it cannot be had, or with None.

        None instead where too many wait already, or the platform ends.
        """
        if self._is_over or self._num_waiting >= MAX_WAITING:
            return None
        found = self._wanted.get(name)
        if found is None:
            found = self._wanted[name] = self._loop.create_future()
        self._num_waiting += 1
        found.add_done_callback(self._waits_no_more)
        if self._timer is None:
            self._timer = self._loop.call_at(self._next_at_s, self._begin)
        return found

    def close(self) -> None:
        """Look no more; requests that wait are refused."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for look in self._looks:
            look.cancel()
        _settle(self._wanted, dict.fromkeys(self._wanted, "the platform is ending"))

    def _begin(self) -> None:
        wanted, self._wanted, self._timer = self._wanted, {}, None
        self._next_at_s = self._loop.time() + self._every_s
        look = asyncio.ensure_future(self._look(wanted))
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    async def _look(self, wanted: dict[str, asyncio.Future[str | None]]) -> None:
        failures: Mapping[str, str] = dict.fromkeys(wanted, "the search for it was given up")
        try:
            failures = await self._seek(wanted)
        finally:
            _settle(wanted, failures)

    def _waits_no_more(self, _: asyncio.Future[str | None]) -> None:
        self._num_waiting -= 1


def _settle(wanted: Mapping[str, asyncio.Future[str | None]], failures: Mapping[str, str]) -> None:
    for name, future in wanted.items():
        if not future.done():
            future.set_result(failures.get(name))


class Seeker(Protocol):
    """Whose function is looked for."""

    def start(self) -> None:
        """The search is over: ask again where the request goes."""

    def refuse(self, answer: LocalAnswer) -> None:
        """The search was in vain."""


class Seeking:
    """A request while its function is looked for. A request that states a time-out waits no longer than that."""

    __slots__ = ("_done", "_seeker", "_timer")

    def __init__(
        self,
        seeker: Seeker,
        done: asyncio.Future[str | None],
        loop: asyncio.AbstractEventLoop,
        timeout_ms: float | None,
    ) -> None:
        self._seeker = seeker
        self._done = done
        most_s = _LONGEST_S if timeout_ms is None else min(_LONGEST_S, timeout_ms / 1e3)
        self._timer = loop.call_later(most_s, self._expired)
        done.add_done_callback(self._over)

    def end(self) -> None:
        """Wait no more."""
        self._timer.cancel()
        self._done.remove_done_callback(self._over)

    def _over(self, done: asyncio.Future[str | None]) -> None:
        self._timer.cancel()
        why = done.result()
        if why is None:
            self._seeker.start()
        else:
            self._seeker.refuse(problem(503, why, retry_after_s=1))

    def _expired(self) -> None:
        self.end()
        late = Problem.of(DeadlineExceeded("the deadline passed before the function was found and made ready"))
        self._seeker.refuse(LocalAnswer(late.status, problem=late))
