"""Hot zygotes: forked from a zygote, with something preloaded, and forking workers in turn."""

import asyncio
import os
import signal

import pytest

from warmpool.client import Zygote
from warmpool.environment import Preload
from warmpool.errors import ZygoteStartError
from warmpool.pool import WarmPool

pytestmark = pytest.mark.anyio

KEEP = Preload(entry="preloads:keep", payload=b"a state")


async def until(holds, timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.01)


def take(pool, wanted):
    return lambda request: pool.take(wanted, request)


async def test_workers_find_what_was_preloaded_and_are_its_children(environment, run):
    async with WarmPool() as pool:
        wanted = environment("entries", preload=KEEP)
        hot = await pool.warm(wanted)
        base = await pool.warm(wanted.base)
        assert hot.pid != base.pid
        first, second = [(await run(take(pool, wanted), "preloads:tell")).answer for _ in range(2)]
        assert first["payload"] == "a state"
        assert first["made_in"] == first["parent"] == second["parent"] == hot.pid
        assert first["pid"] != second["pid"]
        assert first["threads"] == "1"
        plain = (await run(take(pool, wanted.base), "preloads:tell")).answer
        assert "payload" not in plain
        assert plain["parent"] == base.pid


async def test_or_04_variables_that_code_sets_when_it_is_loaded_are_its_workers_own(environment, run):
    async with WarmPool() as pool:
        wanted = environment("entries", preload=Preload(entry="preloads:choose_threads"))
        told = (await run(take(pool, wanted), "preloads:tell")).answer
        assert (told["threads_here"], told["tokenizers"]) == ("3", "true")


@pytest.mark.slow
async def test_it_is_a_zygote_like_any_other(environment, run):
    async with WarmPool(buffer=2) as pool:
        wanted = environment("entries", preload=KEEP)
        await pool.warm(wanted)
        assert pool.num_parked(wanted) == 2
        done = await run(take(pool, wanted), "entries:describe")
        assert done.worker.how == "parked"
        assert done.answer["gc"]
        assert done.answer["threads"] == 1
        assert (await run(take(pool, wanted), "entries:echo", b"payload")).output == b"payload"
        draws = [(await run(take(pool, wanted), "entries:randoms")).answer for _ in range(2)]
        assert draws[0] != draws[1]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("preloads:fail", "ValueError: this cannot be preloaded"),
        ("preloads:nothing", "AttributeError"),
        ("preloads:start_a_thread", "2 threads"),
        ("preloads:leave", "ended with status 4"),
    ],
)
async def test_a_preload_that_makes_no_zygote_is_told_and_the_plain_one_serves(environment, run, caplog, entry, why):
    async with WarmPool(buffer=1) as pool:
        wanted = environment("entries", preload=Preload(entry=entry))
        zygote = await pool.warm(wanted)
        assert zygote.environment == wanted.base
        assert why in caplog.text
        done = await run(take(pool, wanted), "preloads:tell")
        assert done.worker.how in ("fork", "parked")
        assert done.answer["parent"] == zygote.pid


async def test_no_hot_zygote_from_one_that_will_not_fork(environment):
    base = await Zygote.start(environment("thread_starter"))
    try:
        with pytest.raises(ZygoteStartError, match="no hot zygote"):
            await Zygote.heir(base, environment("thread_starter", preload=KEEP))
    finally:
        await base.stop()


async def test_its_death_disturbs_no_worker_and_it_is_replaced(environment, run, up):
    async with WarmPool() as pool:
        wanted = environment("entries", preload=KEEP)
        hot = await pool.warm(wanted)
        worker = await up(take(pool, wanted), "entries:wait")
        os.kill(hot.pid, signal.SIGKILL)
        await until(lambda: not hot.alive)
        assert worker.status is None
        again = (await run(take(pool, wanted), "preloads:tell")).answer
        assert again["payload"] == "a state"
        assert again["made_in"] != hot.pid
        worker.kill(signal.SIGTERM)
        await worker.wait()


async def test_the_last_hot_environment_takes_its_base_with_it(environment, run):
    async with WarmPool() as pool:
        one = environment("entries", preload=KEEP)
        two = environment("entries", preload=Preload(entry="preloads:keep", payload=b"another"))
        await pool.warm(one)
        await pool.warm(two)
        base = await pool.warm(one.base)
        await pool.retire(one)
        assert base.alive
        assert (await run(take(pool, two), "preloads:tell")).answer["payload"] == "another"
        await pool.retire(two)
        assert not base.alive
