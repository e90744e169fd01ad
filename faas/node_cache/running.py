"""The process of a node cache: rounds on a thread, and a port that says how far they are."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faas.node_cache.counts import CONTENT_TYPE
from faas.node_cache.rounds import Rounds
from faas.signals import stop_signals

POLL_S: Final = 10.0
"""How often the pins are read: nothing reports their changes."""


def run(rounds: Rounds, *, host: str, port: int, poll_s: float = POLL_S) -> None:
    """Do rounds and serve until SIGTERM or SIGINT.

    A fetch that is under way then is cut with the process: what of it is here, the next process goes on with.
    """
    stopping = threading.Event()

    def work() -> None:
        while True:
            rounds.once()
            if stopping.wait(poll_s):
                return

    threading.Thread(target=work, name="rounds", daemon=True).start()
    config = uvicorn.Config(app(rounds), host=host, port=port, log_config=None, access_log=False, lifespan="off")
    try:
        asyncio.run(_serve(_Server(config)))
    finally:
        stopping.set()


async def _serve(server: uvicorn.Server) -> None:
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, setattr, server, "should_exit", True)
    await server.serve()


class _Server(uvicorn.Server):
    """A server that leaves the process's signals alone: to be told to end is no failure."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


def app(rounds: Rounds) -> Starlette:
    """Return what is served: metrics, whether the process lives, and whether it has seen the pins."""

    async def metrics(_: Request) -> Response:
        return Response(rounds.counts.expose(), headers={"content-type": CONTENT_TYPE})

    async def alive(_: Request) -> Response:
        return Response("ok")

    async def ready(_: Request) -> Response:
        return Response("ok") if rounds.has_looked else Response("the pins have not been read yet", 503)

    return Starlette(routes=[Route("/metrics", metrics), Route("/livez", alive), Route("/readyz", ready)])
