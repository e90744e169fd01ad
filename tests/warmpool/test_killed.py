"""kill -9 of zygotes under load: nobody who asks is let down, nobody who lives is disturbed, nothing is left."""

import asyncio
import contextlib
import os
import random
import signal
import socket

import pytest

from warmpool.environment import Preload
from warmpool.errors import ZygoteStartError
from warmpool.pool import WarmPool
from warmpool.protocol import Request

pytestmark = pytest.mark.anyio

KEEP = Preload(entry="preloads:keep", payload=b"a state")
NUM_CALLERS = 4


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio", {"use_uvloop": True}


def take(pool, wanted):
    return lambda request: pool.take(wanted, request)


async def living(pool, wanted):
    """Return the zygote of an environment, once it is there again: one that was killed as it came is waited for."""
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(ZygoteStartError):
                zygote = await pool.warm(wanted)
                if zygote.environment == wanted:  # and not the one that stands in for it
                    return zygote
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("num_kills", [5, pytest.param(50, marks=pytest.mark.slow)])
async def test_zygotes_killed_under_load_cost_no_caller_anything(environment, run, up, num_kills):
    chance = random.Random(num_kills)
    answered, over = [], asyncio.Event()
    async with WarmPool(buffer=1) as pool:
        wanted = environment("entries", preload=KEEP)
        await pool.warm(wanted)
        bystanders = [await up(take(pool, wanted), "entries:wait") for _ in range(2)]

        async def call() -> None:
            while not over.is_set():
                answered.append(await run(take(pool, wanted), "entries:echo", b"x"))

        callers = [asyncio.ensure_future(call()) for _ in range(NUM_CALLERS)]
        for _ in range(num_kills):
            victim = await living(pool, chance.choice([wanted, wanted, wanted.base]))
            before = len(answered)
            os.kill(victim.pid, signal.SIGKILL)
            await victim.process.wait()
            async with asyncio.timeout(10):
                while len(answered) <= before + NUM_CALLERS:  # each has an answer that it asked for afterwards
                    await asyncio.sleep(0.005)
        over.set()
        await asyncio.gather(*callers)
        assert {done.output for done in answered} == {b"x"}
        assert {done.status for done in answered} <= {0, 255}  # 255: it ended after its zygote, who would have told
        assert [worker.status for worker in bystanders] == [None, None]
        await living(pool, wanted)
        assert (await run(take(pool, wanted), "preloads:tell")).answer["payload"] == "a state"


@pytest.mark.slow
async def test_a_zygote_that_is_killed_again_and_again_takes_half_of_the_time_at_most(environment, run):
    """Its successor waits for as long as a start took, so that starting cannot take a processor for itself."""
    async with WarmPool() as pool:
        wanted = environment("entries")
        loop = asyncio.get_running_loop()
        began = loop.time()
        starts_s = []
        for _ in range(4):
            zygote = await pool.warm(wanted)
            await run(take(pool, wanted), "entries:echo", b"x")
            (held,) = await pool.sizes()
            starts_s.append(held.start_s)
            os.kill(zygote.pid, signal.SIGKILL)
            await zygote.process.wait()
        await pool.warm(wanted)
        assert loop.time() - began >= sum(starts_s)


async def test_the_port_of_a_worker_that_is_killed_is_free(environment, run, up):
    """Neither its zygote, nor a sibling, nor one that is parked holds the socket that it listened on."""
    async with WarmPool(buffer=1) as pool:
        wanted = environment("entries", preload=KEEP)
        await pool.warm(wanted, buffer=1)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = listening.getsockname()
            reader, writer = os.pipe()
            request = Request(entry="entries:wait", fds={"out": writer, "listen": listening.fileno()})
            worker = await pool.take(wanted, request)
        os.close(writer)
        assert await asyncio.to_thread(os.read, reader, 2) == b"up"
        os.close(reader)
        sibling = await up(take(pool, wanted), "entries:wait")
        await pool.warm(wanted)
        socket.create_connection(address, timeout=5).close()
        worker.kill()
        await worker.wait()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
        assert sibling.status is None
        socket.create_server(address).close()
