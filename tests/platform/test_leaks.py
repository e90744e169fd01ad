"""What stays behind after many requests: nothing."""

import asyncio
import gc
import os
import sys
from pathlib import Path

from faas.platform.exchange import Exchange
from tests.platform.stub import StubInstance, platform, until


def num_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


async def test_descriptors_and_connections_stay_flat_over_2000_requests(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance, limit=4) as running:

        async def round_of_calls() -> None:
            """100 requests by 10 clients: kept connections, closed ones, clients that leave, unknown functions."""

            async def calls(number: int) -> None:
                client = await running.client()
                for count in range(9):
                    path = b"/f/nothing/" if count == 4 else b"/f/echo/"
                    await client.call(b"x" * 100, path)
                if number % 2:
                    await client.post()
                else:
                    await client.call(b"", b"/f/echo/", b"Connection: close")
                client.leave()

            await asyncio.gather(*(calls(number) for number in range(10)))
            running.clients.clear()
            await until(lambda: running.activator.clients.counts.open == 0)

        await round_of_calls()
        before = num_descriptors()
        for _ in range(20):
            await round_of_calls()
        assert num_descriptors() <= before
        assert running.activator.clients.counts.requests == 2100
        assert len(instance.endpoint.connections) <= 4
        assert instance.num_connections <= 4
        assert running.fronts == []
        gc.collect()
        assert sum(type(thing) is Exchange for thing in gc.get_objects()) == 0


async def test_a_request_leaves_no_cycle_behind(tmp_path: Path) -> None:
    """So that nothing waits for the garbage collector."""
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        await client.call()
        gc.collect()
        gc.disable()
        try:
            before = sum(type(thing) is Exchange for thing in gc.get_objects())
            for _ in range(20):
                await client.call()
            assert sum(type(thing) is Exchange for thing in gc.get_objects()) == before == 0
        finally:
            gc.enable()
        assert sys.getrefcount(instance.endpoint) < 20
