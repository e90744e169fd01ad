"""The one-box platform under measurement: `faas up`, and what its control socket and its activator answer."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.load import UnansweredError
from benchmarks.processes import Server, free_port, own_places, running
from loadgen import Workload
from loadgen.client import Client
from loadgen.sample import Sample

_LOOK_EVERY_S = 0.02  # the control interface answers, it does not call back
_SETTLE_WITHIN_S = 60.0


@dataclass(frozen=True)
class Caller:
    """Calls one function of the platform, over a connection that is kept."""

    client: Client
    body: bytes

    async def call(self) -> Sample:
        """Send one request and return its sample. Raises UnansweredError unless it is answered with 200."""
        sample = await self.client.send(self.body)
        if sample.status != 200:
            raise UnansweredError(f"status {sample.status}, {sample.error or sample.outcome}")
        return sample

    async def wake(self) -> Sample:
        """Do as `call` does; raise UnansweredError too when the answer does not say that an instance was woken."""
        sample = await self.call()
        if not sample.cold:
            raise UnansweredError("the answer does not say X-Cold-Start: 1, so nothing was woken")
        return sample


@dataclass(frozen=True)
class Box:
    """A running platform."""

    server: Server
    url: str
    control: aiohttp.ClientSession

    def url_of(self, name: str) -> str:
        """Return where a function answers."""
        return f"{self.url}/f/{name}/"

    @asynccontextmanager
    async def caller(self, name: str, value: Any) -> AsyncIterator[Caller]:
        """Yield a caller of one function with `value` as JSON."""
        workload = Workload.json(self.url_of(name), [value])
        async with Client(workload, timeout_s=120.0) as client:
            yield Caller(client, workload.bodies[0])

    async def scale(self, name: str, num_instances: int) -> None:
        """Do as `faas scale NAME N` does; instances that must go have gone when it returns."""
        url = f"http://control/functions/{name}/scale"
        async with self.control.post(url, json={"instances": num_instances}) as response:
            response.raise_for_status()

    async def failure(self, name: str) -> str | None:
        """Return why the last start of a function's came to nothing, None where it did not."""
        async with self.control.get(f"http://control/functions/{name}") as response:
            response.raise_for_status()
            why: str | None = (await response.json())["failure"]
            return why

    async def all_instances(self) -> list[dict[str, Any]]:
        """Return what `faas ps --json` tells."""
        async with self.control.get("http://control/instances") as response:
            response.raise_for_status()
            found: list[dict[str, Any]] = await response.json()
            return found

    async def instances(self, name: str) -> list[dict[str, Any]]:
        """Return the same of one function's instances."""
        return [made for made in await self.all_instances() if made["function"] == name]

    async def until_instances(self, name: str, num: int) -> list[dict[str, Any]]:
        """Wait until a function has this many instances and all are ready; return them. Raises TimeoutError."""
        async with asyncio.timeout(_SETTLE_WITHIN_S):
            while True:
                found = await self.instances(name)
                if len(found) == num and all(made["state"] == "ready" for made in found):
                    return found
                await asyncio.sleep(_LOOK_EVERY_S)


@asynccontextmanager
async def running_box(
    home: Path,
    *targets: str,
    module: str = "faas.cli.main",
    within_s: float = 300.0,
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[Box]:
    """Run the platform with these targets for as long as the context lasts; it takes calls when the context begins.

    `module` is run as the command line. Snapshots that `home` does not hold yet are made first. Raises ServerError
    where it does not take calls within `within_s`.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = ["-m", module, "up", *targets, "--port", str(port)]
    own = {**own_places(home), **(variables or {})}
    async with AsyncExitStack() as owned:
        server = await owned.enter_async_context(running("faas up", command, home / "up.log", **own))
        await server.until_answers(f"{url}/readyz", within_s=within_s)
        connector = aiohttp.UnixConnector(path=str(home / "run" / "control.sock"))
        control = await owned.enter_async_context(aiohttp.ClientSession(connector=connector))
        yield Box(server, url, control)
