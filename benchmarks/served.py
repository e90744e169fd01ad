"""One function served in one process, by `faas serve`, or a peer's server."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.processes import ROOT, Server, ServerError, free_port, own_places, running

# One thread for the model: its CPU is then that of the thread inside `predict`, and nothing else is.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Served:
    """A server and where it answers."""

    server: Server
    url: str

    async def metric(self, name: str) -> float:
        """Return the sum of a metric's samples of exactly this name."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}metrics") as response:
            families = text_string_to_metric_families(await response.text())
        return sum(sample.value for family in families for sample in family.samples if sample.name == name)


@asynccontextmanager
async def faas_serve(target: str, home: Path, body: Any, **variables: str) -> AsyncIterator[Served]:
    """Serve a function for as long as the context lasts; it has answered `body` once."""
    command = ["-m", "faas.cli.main", "serve", target, "--port"]
    async with _served(f"faas serve {target}", command, home, body, variables=variables) as served:
        yield served


@asynccontextmanager
async def peer(name: str, home: Path, body: Any, **settings: Any) -> AsyncIterator[Served]:
    """Run `benchmarks.peers.NAME` for as long as the context lasts; it has answered `body` once.

    `settings` are those of `_served`. Raises ServerError.
    """
    async with _served(name, ["-m", f"benchmarks.peers.{name}"], home, body, **settings) as served:
        yield served


@asynccontextmanager
async def together(*servers: AbstractAsyncContextManager[Served]) -> AsyncIterator[list[Served]]:
    """Start several servers at once, and keep them for as long as the context lasts.

    Raises the ServerError of one that does not start, when the others have been ended.
    """
    async with AsyncExitStack() as owned:
        try:
            async with asyncio.TaskGroup() as starting:
                tasks = [starting.create_task(owned.enter_async_context(server)) for server in servers]
        except* ServerError as failed:
            raise failed.exceptions[0] from None
        yield [task.result() for task in tasks]


@asynccontextmanager
async def _served(
    name: str,
    command: list[str],
    home: Path,
    body: Any,
    *,
    path: str = "",
    python: str | Path = sys.executable,
    within_s: float = 300.0,
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[Served]:
    """Run a command whose last argument, left out here, is the port to listen on; it answers at `path`."""
    port = str(free_port())
    url = f"http://127.0.0.1:{port}/{path}"
    own = {**own_places(home), **_ONE_THREAD, "PYTHONPATH": str(ROOT), **(variables or {})}
    async with running(name, [*command, port], home / f"{port}.log", program=python, **own) as server:
        await server.until_answers(url, body, within_s=within_s)
        yield Served(server, url)
