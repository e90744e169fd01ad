import asyncio
import logging
import os
import re
import resource
import signal
import time

import pytest

from warmpool.errors import PoolClosed, WarmpoolError, ZygoteStartError
from warmpool.policy import delay_s
from warmpool.pool import WarmPool
from warmpool.protocol import Request

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio", {"use_uvloop": True}


WAIT = Request(entry="entries:wait", fds={"out": 2})


async def until(holds, timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.fixture
def taking(environment):
    """Return what makes of a pool and an environment a function that starts workers."""
    return lambda pool, wanted: lambda request: pool.take(wanted, request)


async def test_without_a_buffer_workers_are_forked_from_one_zygote(environment, run, taking):
    async with WarmPool() as pool:
        wanted = environment("entries")
        runs = await asyncio.gather(*(run(taking(pool, wanted), "entries:describe") for _ in range(5)))
        assert {done.worker.how for done in runs} == {"fork"}
        assert {done.answer["parent"] for done in runs} == {(await pool.warm(wanted)).pid}
        other = await run(taking(pool, environment("entries", "json")), "entries:describe")
        assert other.answer["parent"] != runs[0].answer["parent"]


async def test_parked_workers_are_taken_first_and_replaced(environment, run, taking):
    async with WarmPool(buffer=2) as pool:
        wanted = environment("entries")
        await pool.warm(wanted)
        assert pool.num_parked(wanted) == 2
        runs = await asyncio.gather(*(run(taking(pool, wanted), "entries:echo", b"%d" % number) for number in range(4)))
        assert [done.output for done in runs] == [b"0", b"1", b"2", b"3"]
        assert sorted(done.worker.how for done in runs)[-2:] == ["parked", "parked"]
        await pool.warm(wanted)
        assert pool.num_parked(wanted) == 2


async def test_the_buffer_can_be_set_for_each_environment(environment, run, taking):
    async with WarmPool() as pool:
        wanted = environment("entries")
        await pool.warm(wanted, buffer=1)
        assert pool.num_parked(wanted) == 1
        assert (await run(taking(pool, wanted), "entries:echo", b"x")).worker.how == "parked"
        await pool.warm(wanted, buffer=0)
        await pool.warm(wanted)
        while (await run(taking(pool, wanted), "entries:echo", b"x")).worker.how == "parked":
            pass
        assert pool.num_parked(wanted) == 0


async def test_a_parked_worker_that_dies_is_not_handed_out_and_is_replaced(environment, run, taking, caplog):
    async with WarmPool(buffer=1) as pool:
        wanted = environment("entries")
        zygote = await pool.warm(wanted)
        (parked,) = children_of(zygote.pid)
        os.kill(parked, signal.SIGKILL)
        done = await run(taking(pool, wanted), "entries:echo", b"x")
        assert done.worker.pid != parked
        await until(lambda: pool.num_parked(wanted) == 1 and children_of(zygote.pid) not in ([], [parked]))


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        return [int(child) for child in children.read().split()]


async def test_a_zygote_that_is_killed_is_replaced_and_nobody_disturbed(environment, run, up, taking):
    async with WarmPool(buffer=1) as pool:
        wanted = environment("entries")
        first = await pool.warm(wanted)
        worker = await up(taking(pool, wanted), "entries:wait")
        await pool.warm(wanted)
        for _ in range(5):
            zygote = await pool.warm(wanted)
            os.kill(zygote.pid, signal.SIGKILL)
            runs = await asyncio.gather(*(run(taking(pool, wanted), "entries:echo", b"x") for _ in range(3)))
            assert [(done.status in (0, 255), done.output) for done in runs] == [(True, b"x")] * 3
            await zygote.process.wait()
        assert (await pool.warm(wanted)).pid != first.pid
        assert worker.status is None
        assert worker.kill()


async def test_a_zygote_that_dies_on_every_start_backs_off_and_exec_serves(environment, run, taking, caplog):
    async with WarmPool(buffer=1) as pool:
        wanted = environment("crasher")
        started_at = time.monotonic()
        for _ in range(3):
            done = await run(taking(pool, wanted), "entries:echo", b"x")
            assert (done.worker.how, done.output) == ("exec", b"x")
        assert "ended with status -11 while it imported ['crasher']" in done.worker.why
        for _ in range(2):
            with pytest.raises(ZygoteStartError) as failure:
                await pool.warm(wanted)
        failure.match(r"failed \d times in a row and is tried again in \d+\.\d s: .* ended with status -11")
        elapsed_s = time.monotonic() - started_at
        num_starts = sum("a new one is started in" in record.message for record in caplog.records)
        assert sum(map(delay_s, range(1, num_starts))) <= elapsed_s


async def test_a_zygote_that_dies_at_its_first_fork_backs_off_and_exec_serves(environment, run, taking):
    async with WarmPool() as pool:
        done = await run(taking(pool, environment("dies_at_second_fork")), "entries:echo", b"x")
        assert (done.worker.how, done.output) == ("exec", b"x")
        assert re.search("died before it answered|ended with status -9", done.worker.why)


async def test_a_failed_import_is_warned_of_by_name(environment, run, taking, caplog):
    async with WarmPool() as pool:
        assert (await run(taking(pool, environment("broken")), "entries:echo", b"x")).worker.how == "fork"
        assert "could not import broken: RuntimeError: no licence found" in caplog.text


async def test_one_caller_that_gives_up_does_not_cost_the_others(environment, run, taking):
    async with WarmPool() as pool:
        wanted = environment("entries")
        impatient = asyncio.ensure_future(pool.take(wanted, WAIT))
        patient = asyncio.ensure_future(run(taking(pool, wanted), "entries:echo", b"x"))
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        assert (await patient).worker.how == "fork"


async def test_closing_ends_what_was_taken_politely_then_by_force(environment, up, taking):
    pool = WarmPool(buffer=1)
    wanted = environment("entries")
    polite = await up(taking(pool, wanted), "entries:wait")
    stubborn = await up(taking(pool, wanted), "entries:hang")
    slow = await up(taking(pool, environment("crasher")), "entries:wait")
    assert slow.how == "exec"
    await pool.close(grace_s=0.2)
    assert [worker.status for worker in (polite, stubborn, slow)] == [-signal.SIGTERM, -signal.SIGKILL, -signal.SIGTERM]
    with pytest.raises(PoolClosed):
        await pool.take(wanted, WAIT)
    await pool.close()


async def test_closing_tells_those_that_wait_for_a_worker(environment):
    pool = WarmPool(buffer=1)
    waiting = [asyncio.ensure_future(pool.take(environment("sleeper"), WAIT)) for _ in range(3)]
    waiting.append(asyncio.ensure_future(pool.warm(environment("sleeper"))))
    await asyncio.sleep(0.05)
    started_at = time.monotonic()
    await pool.close(grace_s=60)
    assert time.monotonic() - started_at < 30
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, PoolClosed)


async def test_retiring_an_environment_keeps_its_workers_when_asked(environment, up, run, taking):
    async with WarmPool(buffer=1) as pool:
        wanted = environment("entries")
        first = await pool.warm(wanted)
        worker = await up(taking(pool, wanted), "entries:wait")
        await pool.retire(wanted, keep_workers=True)
        assert pool.num_parked(wanted) == 0
        assert worker.status is None
        assert (await pool.warm(wanted)).pid != first.pid  # wanted again, it is new
        worker.kill(signal.SIGTERM)
        assert await worker.wait() == -signal.SIGTERM  # the old zygote was there to tell
        await first.process.wait()
        other = await up(taking(pool, wanted), "entries:wait")
        await pool.retire(wanted)
        assert other.status == -signal.SIGTERM
        await pool.retire(wanted)


async def test_a_client_without_descriptors_is_told_and_recovers(environment):
    request = Request(entry="entries:return_status", payload=b"7" + bytes(100_000))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with WarmPool() as pool:
        wanted = environment("entries")
        outcomes = []
        for num_free in range(8):
            await pool.warm(wanted)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free_descriptor() + num_free, limits[1]))
            try:
                outcomes.append(await (await pool.take(wanted, request)).wait())
            except (OSError, WarmpoolError) as error:
                outcomes.append(type(error))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert 7 not in outcomes[:3]
        assert outcomes[-1] == 7
        assert await (await pool.take(wanted, request)).wait() == 7


def lowest_free_descriptor() -> int:
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)
    return fd


async def test_closing_ends_what_lingers(environment, up, taking):
    pool = WarmPool()
    wanted = environment("entries")
    worker = await up(taking(pool, wanted), "entries:wait")
    await pool.retire(wanted, keep_workers=True)
    await pool.close(grace_s=0.2)
    assert worker.status == -signal.SIGTERM


async def test_an_unfit_environment_says_so_once_for_each_worker(environment, run, taking, caplog):
    async with WarmPool(buffer=2) as pool:
        with caplog.at_level(logging.WARNING):
            await run(taking(pool, environment("thread_starter")), "entries:echo", b"x")
        loud = [record for record in caplog.records if "is started by exec, not by fork" in record.message]
        assert len(loud) == 1
        assert "telemetry" in loud[0].message
