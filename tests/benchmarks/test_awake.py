"""Processes that keep cores from halting give way to all others, and are gone afterwards."""

import asyncio
import os

from benchmarks import usage
from benchmarks.awake import cores_awake


def spinning() -> list[int]:
    children = usage.tree(os.getpid())[1:]
    return [pid for pid in children if os.sched_getscheduler(pid) == os.SCHED_IDLE]


def test_each_core_has_a_process_that_gives_way_and_ends_with_the_context():
    async def run() -> list[set[int]]:
        async with cores_awake():
            return [os.sched_getaffinity(pid) for pid in spinning()]

    found = asyncio.run(run())
    assert sorted(map(tuple, found)) == sorted((core,) for core in os.sched_getaffinity(0))
    assert not spinning()
