"""The front of the one-box platform: takes connections, holds requests for functions at zero, forwards the rest.

    client -> FrontConnection -> RequestReader -> Exchange -> Router -> Capacity -> BackConnection -> instance
                                                     ^------------- ResponseReader <------------------'

Bytes are spliced at the level of the protocol: a head is checked and passed on with few changes, bodies pass in pieces,
both ways, with the slower side setting the pace, and nothing is held whole. One event loop, no task for a request.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from faas.platform.clients import ActivatorSettings, Clients
from faas.platform.front import FrontConnection
from faas.platform.routing import Router

_BACKLOG = 4096  # connections that wait to be accepted; the kernel's own limit may be lower


class Activator:
    """Serves a router's functions over HTTP/1.1. Made on a running loop."""

    def __init__(self, router: Router, settings: ActivatorSettings | None = None) -> None:
        self.clients = Clients(router, settings or ActivatorSettings())
        self._servers: list[asyncio.Server] = []

    async def listen(self, host: str, port: int) -> int:
        """Take connections on `host` and `port`, 0 for any free one; return the port. Raises OSError."""
        server = await self.clients.loop.create_server(self._front, host, port, backlog=_BACKLOG)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def listen_on(self, sock: socket.socket) -> None:
        """Take connections on a bound socket, TCP or Unix."""
        loop = self.clients.loop
        make: Callable[..., Awaitable[asyncio.Server]] = (
            loop.create_unix_server if sock.family == socket.AF_UNIX else loop.create_server
        )
        self._servers.append(await make(self._front, sock=sock, backlog=_BACKLOG))

    async def drain(self, grace_s: float) -> None:
        """Take no more connections, finish what is under way, and after `grace_s` cut what is not finished."""
        for server in self._servers:
            server.close()
        await self.clients.drain(grace_s)

    def _front(self) -> FrontConnection:
        return FrontConnection(self.clients)
