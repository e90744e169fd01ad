"""A real HTTP server, in a thread, whose answers a test writes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import Response

Answer = Callable[["Seen"], Awaitable[Response]]


@dataclass(frozen=True)
class Seen:
    """One request that came in."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    request: Request


@dataclass
class Served:
    """Where the server is, and what it has seen; `arrived` once that is anything."""

    url: str
    seen: list[Seen] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def serving(answer: Answer, *, path: Path | None = None) -> Iterator[Served]:
    """Serve `answer` on a free port, or on a Unix socket at `path`, until the block ends."""
    listen = socket.socket(socket.AF_UNIX if path is not None else socket.AF_INET)
    listen.bind(str(path) if path is not None else ("127.0.0.1", 0))
    listen.listen()
    served = Served(str(path) if path is not None else f"http://127.0.0.1:{listen.getsockname()[1]}")

    async def app(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        request = Request(scope, receive)
        body = await request.body()
        seen = Seen(request.method, scope["path"], scope["query_string"].decode(), dict(request.headers), body, request)
        served.seen.append(seen)
        served.arrived.set()
        await (await answer(seen))(scope, receive, send)

    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(_serve(app, listen, stop)))
    thread.start()
    try:
        yield served
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
        listen.close()


async def _serve(app: Any, listen: socket.socket, stop: asyncio.Event) -> None:
    """Run uvicorn without its main loop, which looks only ten times a second whether it is to end."""
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
    config.timeout_graceful_shutdown = 1
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listen])
    await stop.wait()
    await server.shutdown(sockets=[listen])
