"""Parked workers that make ready while nobody needs them: a device context, which cannot be forked."""

import asyncio
import os
from pathlib import Path

import pytest

from warmpool import parked
from warmpool.client import Zygote
from warmpool.environment import Preload
from warmpool.errors import PoolClosed
from warmpool.pool import WarmPool

pytestmark = pytest.mark.anyio


def take(pool, wanted):
    return lambda request: pool.take(wanted, request)


@pytest.mark.parametrize("preload", [None, Preload(entry="preloads:keep", payload=b"a state")], ids=["plain", "hot"])
async def test_a_parked_worker_has_its_own_context_before_it_is_needed(environment, run, preload):
    async with WarmPool(buffer=2) as pool:
        wanted = environment("entries", "device", preload=preload, park=Preload(entry="device:create"))
        zygote = await pool.warm(wanted, buffer=2)
        contexts = set()
        for _ in range(2):
            done = await run(take(pool, wanted), "device:use")
            assert done.worker.how == "parked"
            assert done.answer["context"] == done.answer["pid"] == done.worker.pid
            contexts.add(done.answer["context"])
        assert len(contexts) == 2
        assert zygote.hazard is None
        assert len(os.listdir(f"/proc/{zygote.pid}/task")) == 1  # the context's thread is in the workers alone


async def test_a_request_that_comes_meanwhile_waits_for_the_context(environment, run, tmp_path: Path):
    slow = tmp_path / "slow"
    os.mkfifo(slow)
    async with WarmPool() as pool:
        wanted = environment("entries", "device", park=Preload(entry="device:create", payload=os.fsencode(slow)))
        await pool.warm(wanted)
        warming = asyncio.ensure_future(pool.warm(wanted, buffer=1))
        writer = await asyncio.to_thread(os.open, slow, os.O_WRONLY)  # opened once the worker reads
        taking = asyncio.ensure_future(run(take(pool, wanted), "device:use"))
        await asyncio.sleep(0)
        assert not warming.done()
        assert not taking.done()
        os.close(writer)
        done = await taking
        assert (done.worker.how, done.answer["context"]) == ("parked", done.worker.pid)
        await warming


async def test_one_that_cannot_make_ready_is_not_handed_out_and_a_fork_serves(environment, run, caplog):
    async with WarmPool() as pool:
        wanted = environment("entries", "device", park=Preload(entry="device:fail"))
        await pool.warm(wanted, buffer=1)
        done = await run(take(pool, wanted), "device:use")
        assert done.worker.how == "fork"
        assert done.answer["context"] is None
        assert "ended before it was needed" in caplog.text  # and why is on its standard error


async def test_one_that_hangs_is_ended(environment, run, tmp_path: Path, monkeypatch, caplog):
    monkeypatch.setattr(parked, "SETTLE_WITHIN_S", 0.2)
    slow = tmp_path / "never"
    os.mkfifo(slow)
    async with WarmPool() as pool:
        wanted = environment("entries", "device", park=Preload(entry="device:create", payload=os.fsencode(slow)))
        await pool.warm(wanted, buffer=1)
        done = await run(take(pool, wanted), "device:use")
        assert done.worker.how == "fork"
        assert "did not settle in 0.2 s and was killed" in caplog.text


async def test_a_pool_that_is_closed_meanwhile_leaves_nothing(environment, tmp_path: Path):
    slow = tmp_path / "never"
    os.mkfifo(slow)
    async with WarmPool() as pool:
        wanted = environment("entries", "device", park=Preload(entry="device:create", payload=os.fsencode(slow)))
        await pool.warm(wanted)
        warming = asyncio.ensure_future(pool.warm(wanted, buffer=1))
        writer = await asyncio.to_thread(os.open, slow, os.O_WRONLY)
    os.close(writer)
    (outcome,) = await asyncio.gather(warming, return_exceptions=True)
    assert isinstance(outcome, Zygote | PoolClosed)
