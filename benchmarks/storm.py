"""An open loop as lean as can be: requests that are due at random moments, whether or not others were answered.

`loadgen` takes about a millisecond of a core for a request on a slow machine. Of two cores, one of which a model needs
for itself, too little is then left at some hundred requests a second, and what is measured is the driver.
"""

import asyncio
from dataclasses import dataclass, field
from time import monotonic, thread_time
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

import httptools

from benchmarks.flood import request
from loadgen.arrivals import planned_instants
from loadgen.pacer import Pacer

_LEAD_S = 0.05
_OK = 200


@dataclass
class Storm:
    """What came of it, in seconds from when each request was due.

    `refused_s` are those that were not answered with 200: until they were told so, or until they were given up.
    `cpu_s` is what the driver used.
    """

    duration_s: float
    answered_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    cpu_s: float = 0.0

    @property
    def num_due(self) -> int:
        """How many requests there were."""
        return len(self.answered_s) + len(self.refused_s)

    def num_within(self, seconds: float) -> int:
        """Return how many were answered within so many seconds."""
        return sum(took_s <= seconds for took_s in self.answered_s)


async def storm(url: str, body: Any, rate_per_s: float, duration_s: float, *, seed: int, gives_up_s: float) -> Storm:
    """Post `body` as JSON at random moments (Poisson), and wait for the last answers for `gives_up_s`.

    Raises OSError.
    """
    began_at, cpu_before_s = monotonic() + _LEAD_S, thread_time()
    driver = _Driver(urlsplit(url), body, Storm(duration_s))
    try:
        with Pacer() as pacer:
            for due_s in planned_instants("poisson", rate_per_s, seed=seed):
                if due_s >= duration_s:
                    break
                await pacer.until(began_at + due_s)
                driver.send(began_at + due_s)
        await driver.answered(gives_up_s)
    finally:
        await driver.close()
    driver.found.cpu_s = thread_time() - cpu_before_s
    return driver.found


class _Driver:
    """Has as many connections as there are requests in flight."""

    def __init__(self, place: SplitResult, body: Any, found: Storm) -> None:
        self.found = found
        self.connections: set[_Connection] = set()
        self.idle: list[_Connection] = []
        self.in_flight: dict[_Connection, float] = {}
        self._place = place
        self._request = request(place, body)
        self._opening: set[asyncio.Task[None]] = set()
        self._settled = asyncio.Event()

    def send(self, due_at: float) -> None:
        if self.idle:
            self._send(self.idle.pop(), due_at)
            return
        task = asyncio.get_running_loop().create_task(self._send_on_new(due_at))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def ended(self, connection: "_Connection", status: int | None) -> None:
        """Take in the answer on a connection, or that there will be none."""
        due_at = self.in_flight.pop(connection, None)
        if due_at is not None:
            (self.found.answered_s if status == _OK else self.found.refused_s).append(monotonic() - due_at)
        if not self.in_flight:
            self._settled.set()

    async def answered(self, gives_up_s: float) -> None:
        await asyncio.gather(*self._opening)
        try:
            async with asyncio.timeout(gives_up_s):
                while self.in_flight:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            for connection in list(self.in_flight):
                self.ended(connection, None)

    async def close(self) -> None:
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        for connection in list(self.connections):
            connection.transport.close()
        await asyncio.sleep(0)  # a transport that is closed has one more thing to do on its loop

    async def _send_on_new(self, due_at: float) -> None:
        host, port = self._place.hostname or "", self._place.port or 80
        _, connection = await asyncio.get_running_loop().create_connection(lambda: _Connection(self), host, port)
        self._send(connection, due_at)

    def _send(self, connection: "_Connection", due_at: float) -> None:
        self.in_flight[connection] = due_at
        connection.transport.write(self._request)


class _Connection(asyncio.Protocol):
    """One connection to the server; the parser calls it back."""

    transport: asyncio.Transport

    def __init__(self, driver: _Driver) -> None:
        self._driver = driver
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._driver.connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_message_complete(self) -> None:
        self._driver.ended(self, self._parser.get_status_code())
        if self._parser.should_keep_alive():
            self._driver.idle.append(self)
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._driver.connections.discard(self)
        if self in self._driver.idle:
            self._driver.idle.remove(self)
        self._driver.ended(self, None)
