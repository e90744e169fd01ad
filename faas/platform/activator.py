"""The front of the one-box platform: takes connections, holds requests for functions at zero, forwards the rest.

    client -> FrontConnection -> RequestReader -> Exchange -> Router -> Capacity -> BackConnection -> instance
                                                     ^------------- ResponseReader <------------------'

Bytes are spliced at the level of the protocol: a head is read and written anew, bodies pass in pieces, both ways, with
the slower side setting the pace, and nothing is held whole. One event loop, no task for a request.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from faas.errors import SettingError
from faas.platform.front import FrontConnection
from faas.platform.hangup import HangupWatch
from faas.platform.routing import Router
from faas.server.headers import RequestIds

_BACKLOG = 4096  # connections that wait to be accepted; the kernel's own limit may be lower


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivatorSettings:
    """`keep_alive_s` is how long a connection may be idle, longer than common balancers reuse one. `linger_s` is how
    long a client may go on sending after an answer that it should read first. Raises SettingError."""

    keep_alive_s: float = 75.0
    linger_s: float = 30.0

    def __post_init__(self) -> None:
        for name in ("keep_alive_s", "linger_s"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name}={getattr(self, name)}: give seconds above 0")


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


class Activator:
    """Serves a router's functions over HTTP/1.1. Made on a running loop."""

    def __init__(self, router: Router, settings: ActivatorSettings | None = None) -> None:
        self.router = router
        self.settings = settings or ActivatorSettings()
        self.loop = asyncio.get_running_loop()
        self.hangups = HangupWatch(self.loop)
        self.counts = ClientCounts()
        self.ids = RequestIds()
        self.is_draining = False
        self._servers: list[asyncio.Server] = []
        self.fronts: set[FrontConnection] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    async def listen(self, host: str, port: int) -> int:
        """Take connections on `host` and `port`, 0 for any free one; return the port. Raises OSError."""
        server = await self.loop.create_server(self._front, host, port, backlog=_BACKLOG)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def listen_on(self, sock: socket.socket) -> None:
        """Take connections on a bound socket, TCP or Unix."""
        make: Callable[..., Awaitable[asyncio.Server]] = (
            self.loop.create_unix_server if sock.family == socket.AF_UNIX else self.loop.create_server
        )
        self._servers.append(await make(self._front, sock=sock, backlog=_BACKLOG))

    async def drain(self, grace_s: float) -> None:
        """Take no more connections, finish what is under way, and after `grace_s` cut what is not finished."""
        self.is_draining = True
        for server in self._servers:
            server.close()
        for front in tuple(self.fronts):
            front.drain()
        try:
            await asyncio.wait_for(self._all_closed.wait(), grace_s)
        except TimeoutError:
            for front in tuple(self.fronts):
                front.cut()
            await self._all_closed.wait()
        self.hangups.close()

    def opened(self, front: FrontConnection) -> None:
        """A client has connected."""
        self.counts.accepted += 1
        self.counts.open += 1
        self.fronts.add(front)
        self._all_closed.clear()
        if self.is_draining:
            front.drain()

    def closed(self, front: FrontConnection) -> None:
        """A client's connection is gone."""
        self.counts.open -= 1
        self.fronts.discard(front)
        if not self.fronts:
            self._all_closed.set()

    def _front(self) -> FrontConnection:
        return FrontConnection(self)
