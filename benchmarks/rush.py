"""Many callers at once, as lean as can be, whose connections are open before: what is timed is the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any, cast
from urllib.parse import urlsplit

from benchmarks.flood import is_whole, request
from benchmarks.load import UnansweredError
from benchmarks.served import Served


class _Caller(asyncio.Protocol):
    """Sends one request when it is told to, and keeps the answer's status and when it came."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[tuple[int, float]] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if is_whole(self._received) and not self.answered.done():
            self.answered.set_result((int(self._received.split(b" ", 2)[1]), monotonic()))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(exc or UnansweredError("the server closed a connection"))


class Rush:
    """Callers who wait for a word to post the same body."""

    def __init__(self, callers: list[_Caller], request: bytes) -> None:
        self._callers = callers
        self._request = request

    async def go(self) -> list[tuple[int, float]]:
        """Have all of them post, and return each one's status and its milliseconds since the first did.

        Raises UnansweredError, OSError.
        """
        began_at = monotonic()
        for caller in self._callers:
            assert caller.transport is not None
            caller.transport.write(self._request)
        answers = await asyncio.gather(*(caller.answered for caller in self._callers))
        return [(status, (at - began_at) * 1e3) for status, at in answers]


@asynccontextmanager
async def connected(served: Served, body: Any, num_callers: int) -> AsyncIterator[Rush]:
    """Connect callers who will post `body` as JSON."""
    place = urlsplit(served.url)
    callers = [_Caller() for _ in range(num_callers)]
    try:
        for caller in callers:
            await asyncio.get_running_loop().create_connection(
                partial(_same, caller), place.hostname or "", place.port or 80
            )
        yield Rush(callers, request(place, body))
    finally:
        for caller in callers:
            caller.answered.cancel()
            if caller.transport is not None:
                caller.transport.close()


def _same(caller: _Caller) -> _Caller:
    return caller
