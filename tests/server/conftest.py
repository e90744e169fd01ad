"""An instance served on a loopback socket by the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from faas.function import Function
from faas.handler import Handler
from faas.runtime import Runtime
from faas.server import KEEP_ALIVE_S
from faas.server.admin import Admin
from faas.server.serve import Server, Stop


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@dataclass
class Served:
    """A served instance: its runtime, a client, and the word to stop."""

    runtime: Runtime
    client: httpx.AsyncClient
    port: int
    stop: Stop
    done: asyncio.Task[int]
    ready: asyncio.Event

    async def post(self, json: Any = None, path: str = "/", **options: Any) -> httpx.Response:
        return await self.client.post(path, **({"json": json} if "content" not in options else {}), **options)

    async def until_ready(self) -> None:
        await asyncio.wait_for(self.ready.wait(), 20)
        assert (await self.client.get("/readyz")).status_code == 200

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def value(self, metric: str, **labels: str) -> float:
        """Return one sample of /metrics."""
        wanted = [f'{name}="{text}"' for name, text in labels.items()]
        for line in (await self.client.get("/metrics")).text.splitlines():
            name, _, rest = line.partition("{")
            if name == metric and all(part in rest for part in wanted):
                return float(line.rpartition(" ")[2])
        raise KeyError(metric)


Serving = Callable[..., contextlib.AbstractAsyncContextManager[Served]]


def listening() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    return sock


@pytest.fixture
def serving() -> Serving:
    """Return what serves a function: `async with serving(function) as served`. Ready, if it is to be ready first."""

    @contextlib.asynccontextmanager
    async def open_it(
        function: Function,
        *,
        load: Callable[[], Any] | None = None,
        ready_first: bool = True,
        runtime: dict[str, Any] | None = None,
        keep_alive_s: float = KEEP_ALIVE_S,
        phases: dict[str, float] | None = None,
        on_recycle: Callable[[], None] | None = None,
        admin: Admin | None = None,
        **options: Any,
    ) -> AsyncIterator[Served]:
        handler = Handler(function)
        made = Runtime(function, handler, **{"version": "7"} | (runtime or {}))
        made.begin("i-1", phases=phases, on_recycle=on_recycle)
        stop, ready, sock = Stop(), asyncio.Event(), listening()
        port = sock.getsockname()[1]
        options = {"grace_s": 5.0, "stop": stop, "on_ready": ready.set, "exit_on_failure": False} | options
        server = Server(made, keep_alive_s, admin=admin)
        done = asyncio.create_task(server.serve([sock], load=load or handler.setup, **options))
        try:
            if ready_first:
                waiter = asyncio.create_task(ready.wait())
                await asyncio.wait((waiter, done), return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
            else:
                await asyncio.sleep(0)
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20, verify=False) as client:
                yield Served(made, client, port, stop, done, ready)
        finally:
            stop.tell()
            await done

    return open_it
