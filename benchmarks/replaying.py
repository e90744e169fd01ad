"""Calls of a trace, sent to a platform when they are due, and what they met there."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import aiohttp

from benchmarks.box import Box
from faas.platform.simulation import Call

_LOOK_EVERY_S = 0.2  # the control interface answers, it does not call back
_WITHIN_S = 120.0


@dataclass
class Toll:
    """What the calls of a trace met, and what it took: instances, added up over the seconds that they lived.

    A call is cold when it waited for an instance to start. `late_s` is how long after they were due calls were sent.
    """

    num_calls: int = 0
    num_cold: int = 0
    num_failed: int = 0
    instance_s: float = 0.0
    late_s: list[float] = field(default_factory=list)

    @property
    def cold_share(self) -> float:
        """The share of calls that waited for an instance to start."""
        return self.num_cold / max(1, self.num_calls)


async def replay(box: Box, calls: Mapping[str, Iterable[Call]], *, began_at: float, until_s: float) -> Toll:
    """Send the calls of each function as they come, from `began_at` on the loop's clock, up to `until_s` seconds.

    Each is sent the seconds that it is to take.
    """
    toll = Toll()
    looking = asyncio.ensure_future(_count_instances(box, toll))
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as replaying:
            for name, of_one in calls.items():
                due = [call for call in of_one if call.at_s < until_s]
                replaying.create_task(_send_all(session, box.url_of(name), due, began_at, toll))
            replaying.create_task(asyncio.sleep(began_at + until_s - asyncio.get_running_loop().time()))
    finally:
        looking.cancel()
    return toll


async def _send_all(session: aiohttp.ClientSession, url: str, calls: list[Call], began_at: float, toll: Toll) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as sending:
        for call in calls:
            await asyncio.sleep(began_at + call.at_s - loop.time())
            toll.late_s.append(loop.time() - began_at - call.at_s)
            sending.create_task(_send(session, url, call, toll))


async def _send(session: aiohttp.ClientSession, url: str, call: Call, toll: Toll) -> None:
    toll.num_calls += 1
    try:
        async with asyncio.timeout(_WITHIN_S), session.post(url, json=call.duration_s) as response:
            await response.read()
            toll.num_failed += response.status != 200
            toll.num_cold += response.headers.get("X-Cold-Start") == "1"
    except (aiohttp.ClientError, TimeoutError):
        toll.num_failed += 1


async def _count_instances(box: Box, toll: Toll) -> None:
    """Add up the seconds of all instances that live, as seen five times a second."""
    loop = asyncio.get_running_loop()
    since = loop.time()
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        num_living = len(await box.all_instances())
        now = loop.time()
        toll.instance_s += num_living * (now - since)
        since = now
