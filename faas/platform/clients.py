"""All clients of an activator: what their connections share, and how many there are."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from faas.errors import SettingError
from faas.platform.deadlines import Deadlines
from faas.platform.hangup import HangupWatch
from faas.platform.routing import Router, Target
from faas.platform.wire import LocalAnswer, problem
from faas.server.headers import RequestIds


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivatorSettings:
    """`keep_alive_s` is how long a client may send or read nothing; longer than common balancers keep a connection.

    `linger_s` is how long it may go on sending after an answer that it should read first. `last_descriptor` is the
    highest that a client may have, None for any: who connects beyond it is told to come again. Raises SettingError.
    """

    keep_alive_s: float = 75.0
    linger_s: float = 30.0
    last_descriptor: int | None = None

    def __post_init__(self) -> None:
        for name in ("keep_alive_s", "linger_s"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name}={getattr(self, name)}: give seconds above 0")


class Full:
    """The router of clients for whom no descriptor is left: instances need those that there still are."""

    def route(self, host: bytes, path: bytes, method: bytes, tag: bytes = b"") -> Target | LocalAnswer:
        """See `Router`."""
        detail = "the platform has as many connections as its limit of open files allows; raise the limit (ulimit -n)"
        return problem(503, detail, retry_after_s=1)


FULL = Full()


@dataclass(slots=True)
class ClientCounts:
    """What happened to all clients since the start. `open` connections are now.

    Of all `requests`, `local` ones were answered without a function; `malformed` is what was no request.
    """

    accepted: int = 0
    open: int = 0
    requests: int = 0
    local: int = 0
    malformed: int = 0


class ClientConnection(Protocol):
    """One of them."""

    def drain(self) -> None:
        """Close, after the answer to a request that is under way."""

    def cut(self) -> None:
        """Close now."""


class Clients:
    """Made on the loop that serves them."""

    def __init__(self, router: Router, settings: ActivatorSettings) -> None:
        self.router = router
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.hangups = HangupWatch(self.loop)
        self.deadlines = Deadlines(self.loop)
        self.ids = RequestIds()
        self.counts = ClientCounts()
        self.connections: set[ClientConnection] = set()
        self.is_draining = False
        self._all_gone = asyncio.Event()
        self._all_gone.set()

    def opened(self, connection: ClientConnection) -> None:
        """A client has connected."""
        self.counts.accepted += 1
        self.counts.open += 1
        self.connections.add(connection)
        self._all_gone.clear()
        if self.is_draining:
            connection.drain()

    def closed(self, connection: ClientConnection) -> None:
        """A client is gone."""
        self.counts.open -= 1
        self.connections.discard(connection)
        if not self.connections:
            self._all_gone.set()

    async def drain(self, grace_s: float) -> None:
        """Finish what is under way, and after `grace_s` cut what is not finished."""
        self.is_draining = True
        for connection in tuple(self.connections):
            connection.drain()
        try:
            await asyncio.wait_for(self._all_gone.wait(), grace_s)
        except TimeoutError:
            for connection in tuple(self.connections):
                connection.cut()
            await self._all_gone.wait()
        self.hangups.close()
