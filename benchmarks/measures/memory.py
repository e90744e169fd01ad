"""What one and what four instances of a model hold, each after its first answer."""

import asyncio
from dataclasses import dataclass

import aiohttp

from benchmarks import usage
from benchmarks.area import Bench
from benchmarks.box import Box, running_box
from benchmarks.measures.cold_start import SENTENCE
from benchmarks.rows import Row, at_most
from benchmarks.usage import Memory

MIB = 2**20
_MOST_PRIVATE_DIRTY_MIB = 28.0
_MOST_OF_A_HOT_ONE_MIB = 12.0
_MOST_BURSTS = 100


@dataclass(frozen=True)
class Held:
    """The memory of each instance, and of the platform with its zygotes and parked workers."""

    instances: list[Memory]
    platform: Memory

    @property
    def pss_mib(self) -> float:
        """PSS of the instances, added up."""
        return sum(one.pss_bytes for one in self.instances) / MIB

    @property
    def most_private_dirty_mib(self) -> float:
        """Private_Dirty of the instance that has the most."""
        return max(one.private_dirty_bytes for one in self.instances) / MIB


async def measure(bench: Bench) -> list[Row]:
    async with running_box(bench.home, "handlers.embed") as box:
        one, four = await look(box, "embed", 1), await look(box, "embed", 4)
    return [
        Row("Private_Dirty of 1 instance", one.most_private_dirty_mib, "MiB"),
        Row("PSS of 1 instance", one.pss_mib, "MiB"),
        Row("PSS of 4 instances in sum", four.pss_mib, "MiB"),
        Row("PSS of platform, zygote, parked workers beside 4", four.platform.pss_bytes / MIB, "MiB"),
        Row(
            "Private_Dirty of each of 4 instances, the most",
            four.most_private_dirty_mib,
            "MiB",
            at_most(_MOST_PRIVATE_DIRTY_MIB),
        ),
        Row(
            "the same, as instances are forked from a hot zygote",
            four.most_private_dirty_mib,
            "MiB",
            at_most(_MOST_OF_A_HOT_ONE_MIB),
        ),
    ]


async def look(box: Box, name: str, num: int) -> Held:
    """Have `num` instances, each of which has answered, and return what they hold."""
    await box.scale(name, num)
    found = await box.until_instances(name, num)
    await _reach(box, name, {made["id"] for made in found})
    pids = [made["pid"] for made in found]
    return Held([usage.memory([pid]) for pid in pids], usage.memory(set(box.server.pids) - set(pids)))


async def _reach(box: Box, name: str, ids: set[str]) -> None:
    """Call until each of the instances has answered: as many callers at once as there are instances."""
    async with aiohttp.ClientSession() as session:

        async def answerer() -> str:
            async with session.post(box.url_of(name), json=SENTENCE) as response:
                response.raise_for_status()
                return response.headers["X-Instance-Id"]

        missing = set(ids)
        for _ in range(_MOST_BURSTS):
            missing -= set(await asyncio.gather(*(answerer() for _ in ids)))
            if not missing:
                return
    raise RuntimeError(f"{_MOST_BURSTS} bursts of {len(ids)} calls never reached {', '.join(sorted(missing))}")
