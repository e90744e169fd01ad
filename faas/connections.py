"""The HTTP clients of an event loop, one an address, so that calls share connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import httpx

from faas.address import Address

_LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=100)


class _Connections:
    """The clients of one loop. They are closed when the loop ends its asynchronous generators, as every runner does."""

    def __init__(self) -> None:
        self.clients: dict[Address, httpx.AsyncClient] = {}
        self.end = self._until_the_end()

    async def _until_the_end(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            _held.pop(asyncio.get_running_loop(), None)
            for client in self.clients.values():
                await client.aclose()


_held: dict[asyncio.AbstractEventLoop, _Connections] = {}


async def client_of(address: Address) -> httpx.AsyncClient:
    """Return the running loop's client for an address."""
    loop = asyncio.get_running_loop()
    connections = _held.get(loop)
    if connections is None:
        for closed in [other for other in _held if other.is_closed()]:
            del _held[closed]
        connections = _held[loop] = _Connections()
        await anext(connections.end)
    client = connections.clients.get(address)
    if client is None:
        client = connections.clients[address] = _client(address)
    return client


def _client(address: Address) -> httpx.AsyncClient:
    # Certificates take tens of milliseconds to load, and a plain connection has no use for them.
    verify = address.url.startswith("https://")
    transport = httpx.AsyncHTTPTransport(verify=verify, uds=address.socket, limits=_LIMITS) if address.socket else None
    direct = not verify and _is_here(httpx.URL(address.url).host)
    return httpx.AsyncClient(verify=verify, transport=transport, limits=_LIMITS, timeout=None, trust_env=not direct)


def _is_here(host: str) -> bool:
    """Tell whether a host is this machine, to which a proxy of the environment is no way."""
    return host in ("localhost", "::1") or host.endswith(".localhost") or host.startswith("127.")
