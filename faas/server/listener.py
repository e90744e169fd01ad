"""Uvicorn's HTTP protocol on sockets of ours, without its main loop: nothing wakes an instance that has no calls."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Sequence
from email.utils import formatdate
from typing import Any, Final, cast

from starlette.types import ASGIApp

from faas.server.protocol import Protocol
from faas.server.uvicorn_parts import Config, HttpToolsProtocol, ServerState

_BACKLOG: Final = 2048


class Listener:
    """Serves an application on sockets until it is closed."""

    def __init__(self, app: ASGIApp, keep_alive_s: float) -> None:
        self._config = Config(
            app=cast(Any, app),
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=cast(int, keep_alive_s),
        )
        self._config.load()
        self._state = _State()
        self._sockets: Sequence[socket.socket] = ()
        self._servers: list[asyncio.base_events.Server] = []

    async def open(self, sockets: Sequence[socket.socket]) -> None:
        """Listen on `sockets`, TCP or Unix; they are closed with the listener."""
        loop = asyncio.get_running_loop()
        self._sockets = sockets
        for sock in sockets:
            create = loop.create_unix_server if sock.family == socket.AF_UNIX else loop.create_server
            self._servers.append(await create(self._protocol, sock=sock, backlog=_BACKLOG))

    async def adopt(self, connection: socket.socket, received: bytes) -> None:
        """Serve a connection that was accepted elsewhere, and from which `received` has been read."""
        loop = asyncio.get_running_loop()
        _, protocol = await loop.connect_accepted_socket(self._protocol, connection)
        protocol.data_received(received)

    def close_after_answers(self) -> None:
        """Let every answer from now on say `Connection: close`, those to requests that are already here included."""
        self._state.headers.append((b"connection", b"close"))

    async def quiet(self, within_s: float) -> None:
        """Wait until no request is being answered, for `within_s` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._state.tasks:
                    await asyncio.wait(self._state.tasks)

    async def close(self, within_s: float) -> None:
        """Close the sockets and the idle connections; wait for the last bytes of answers, for `within_s` at most."""
        for server in self._servers:
            server.close()
        for sock in self._sockets:
            sock.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._state.connections.empty.wait()
        for connection in list(self._state.connections):
            connection.transport.abort()

    def _protocol(self) -> HttpToolsProtocol:
        return Protocol(self._config, cast(ServerState, self._state), {}, asyncio.get_running_loop())


class _State:
    """What uvicorn's connections share, as its own `ServerState`; the Date header is made when it is looked at."""

    def __init__(self) -> None:
        self.total_requests = 0
        self.connections = _Connections()
        self.tasks: set[asyncio.Task[None]] = set()
        self.headers: list[tuple[bytes, bytes]] = [(b"date", b"")]
        self._second = 0

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every answer: one list, which answers read when they begin."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self.headers[0] = (b"date", formatdate(second, usegmt=True).encode())
        return self.headers


class _Connections(set[HttpToolsProtocol]):
    """The open connections; tells when the last one has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.empty = asyncio.Event()
        self.empty.set()

    def add(self, connection: HttpToolsProtocol) -> None:
        super().add(connection)
        self.empty.clear()

    def discard(self, connection: object) -> None:
        super().discard(connection)
        if not self:
            self.empty.set()
