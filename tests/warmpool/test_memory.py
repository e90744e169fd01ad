"""What zygotes take, and that they go and come back."""

import asyncio
import os
import signal

import pytest

from warmpool import memory
from warmpool.environment import Preload
from warmpool.pool import WarmPool

pytestmark = pytest.mark.anyio

MIB = 1 << 20
KEEP = Preload(entry="preloads:keep", payload=b"a state")
ROLLUP = """\
55d8-7ffd ---p 00000000 00:00 0                          [rollup]
Rss:                1500 kB
Pss:                 700 kB
Pss_Dirty:           300 kB
Shared_Clean:        900 kB
Private_Clean:       100 kB
Private_Dirty:       250 kB
"""


def take(pool, wanted):
    return lambda request: pool.take(wanted, request)


def test_a_rollup_is_read():
    assert memory.parse(ROLLUP) == memory.Memory(pss_bytes=700 * 1024, private_bytes=350 * 1024)


def test_a_process_that_has_ended_takes_none():
    assert memory.read(2**22 + 1) == memory.Memory()


async def test_sizes_name_hot_zygotes_before_what_they_are_forked_from(environment, run):
    async with WarmPool(buffer=1) as pool:
        large = environment("entries", preload=Preload(entry="preloads:take_memory", payload=b"%d" % (50 * MIB)))
        small = environment("entries", preload=KEEP)
        for one in (large, small):
            await pool.warm(one, buffer=1)
        await run(take(pool, large), "entries:echo", b"x")  # it was used last
        await pool.warm(large)
        sizes = await pool.sizes()
        assert [one.environment for one in sizes] == [small, large, small.base]
        assert [one.num_heirs for one in sizes] == [0, 0, 2]
        assert [one.num_workers for one in sizes] == [0, 0, 0]
        assert sizes[1].memory.pss_bytes > sizes[0].memory.pss_bytes + 40 * MIB
        assert sizes[1].start_s > 0
        assert sizes[1].used_at > sizes[0].used_at


async def test_what_is_let_go_ends_and_comes_back_when_it_is_wanted(environment, run):
    async with WarmPool(buffer=1) as pool:
        wanted = environment("entries", preload=KEEP)
        hot, base = await pool.warm(wanted), await pool.warm(wanted.base)
        assert not await pool.let_go(wanted.base)  # a hot one is forked from it
        assert await pool.let_go(wanted)
        assert hot.process.status is not None
        assert pool.num_parked(wanted) == 0
        assert not await pool.let_go(wanted)
        assert await pool.let_go(wanted.base)
        assert base.process.status is not None
        assert await pool.sizes() == []
        done = await run(take(pool, wanted), "preloads:tell")
        assert done.answer["payload"] == "a state"
        assert done.answer["parent"] == (await pool.warm(wanted)).pid
        assert {one.environment for one in await pool.sizes()} == {wanted, wanted.base}


async def test_what_is_in_use_stays(environment, up):
    async with WarmPool() as pool:
        wanted = environment("entries", preload=KEEP)
        zygote = await pool.warm(wanted)
        worker = await up(take(pool, wanted), "entries:wait")
        assert not await pool.let_go(wanted)
        assert [one.num_workers for one in await pool.sizes()] == [1, 0]
        os.kill(worker.pid, signal.SIGTERM)
        assert await worker.wait() == -signal.SIGTERM
        assert zygote.alive
        assert await pool.let_go(wanted)
        assert not await pool.let_go(environment("never_heard_of"))


async def test_one_that_is_wanted_while_it_goes_gets_a_worker(environment, run):
    async with WarmPool(buffer=1) as pool:
        wanted = environment("entries", preload=KEEP)
        for _ in range(5):
            await pool.warm(wanted)
            going = asyncio.ensure_future(pool.let_go(wanted))
            await asyncio.sleep(0)
            done = await run(take(pool, wanted), "preloads:tell")
            assert done.answer["payload"] == "a state"
            assert done.worker.how in ("fork", "parked")
            await going
