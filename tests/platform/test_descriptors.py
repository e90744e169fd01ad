"""A platform that runs out of descriptors: who comes too many is told so, and the rest goes on."""

import asyncio
import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from faas.platform.clients import ActivatorSettings
from tests.platform.stub import StubInstance, platform, until


@contextlib.contextmanager
def at_most(num_more: int) -> Iterator[None]:
    """Let this process open so many descriptors more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    taken = [os.dup(0) for _ in range(highest)]  # no gaps below
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken) + 1 + num_more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)


async def test_clients_beyond_the_last_descriptor_are_told_to_come_again(tmp_path: Path) -> None:
    first = os.dup(0)
    os.close(first)
    settings = ActivatorSettings(last_descriptor=first + 20)
    async with StubInstance(tmp_path) as instance, platform(settings=settings) as running:
        running.capacity.add(instance.endpoint)
        clients = [await running.client() for _ in range(30)]  # each takes one here, and one there
        answers = [await client.call() for client in clients]
        statuses = [answer.status for answer in answers]
        assert set(statuses) == {200, 503}
        assert statuses == sorted(statuses), "who was there first is served"
        refused = answers[-1]
        assert refused.headers[b"retry-after"] == b"1"
        assert refused.headers[b"connection"] == b"close"
        assert b"ulimit -n" in refused.body
        assert (await clients[0].call()).status == 200
        for client in clients[5:]:
            client.leave()
        await until(lambda: len(running.fronts) == 5)
        again = await running.client()
        assert (await again.call()).status == 200


async def test_accepting_recovers_when_not_one_descriptor_was_left(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform() as running:
        running.capacity.add(instance.endpoint)
        client = await running.client()
        assert (await client.call()).status == 200
        with at_most(1):
            with contextlib.suppress(OSError):  # its own descriptor is the last; there is none to accept it with
                cut = await running.client()
                assert await asyncio.wait_for(cut.at_end(), 10)
            assert (await client.call()).status == 200, "who is connected is served"
        again = await running.client()
        assert (await again.call()).status == 200
