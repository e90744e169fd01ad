"""FK-01 and its kind: what must not be forked is not, and the reason is told."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from warmpool.environment import Preload
from warmpool.errors import ForkRefused
from warmpool.pool import WarmPool

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio", {"use_uvloop": True}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("inits_cuda", "an import initialised CUDA through torch, .* [(]since the import of inits_cuda[)]"),
        ("counts_devices", "a worker was forked as a test, and CUDA had been touched before the fork"),
        ("thread_starter", "has 2 threads and must have 1; .* telemetry [(]since the import of thread_starter[)]"),
    ],
)
async def test_fk_01_an_unfit_zygote_never_costs_a_request(environment, run, module, reason):
    async with WarmPool(buffer=2) as pool:
        wanted = environment(module, faked=True)
        zygote = await pool.warm(wanted)
        with pytest.raises(ForkRefused, match=reason):
            await zygote.park()
        for _ in range(2):
            done = await run(lambda request: pool.take(wanted, request), "entries:echo", b"x")
            assert (done.status, done.output, done.worker.how) == (0, b"x", "exec")
            assert done.worker.why == zygote.hazard
        assert pool.num_parked(wanted) == 0


@pytest.mark.anyio
async def test_fk_01_state_that_touches_cuda_makes_no_hot_zygote_and_the_plain_one_serves(environment, run, caplog):
    async with WarmPool(buffer=1) as pool:
        wanted = environment("torch", "entries", "preloads", faked=True, preload=Preload(entry="preloads:touch_cuda"))
        zygote = await pool.warm(wanted)
        assert zygote.environment == wanted.base
        assert "no hot zygote: an import initialised CUDA through torch" in caplog.text
        done = await run(lambda request: pool.take(wanted, request), "entries:echo", b"x")
        assert (done.output, done.worker.how) == (b"x", "parked")


@pytest.mark.anyio
async def test_code_that_makes_an_event_loop_when_it_is_loaded_is_each_workers_own(environment, run, caplog):
    async with WarmPool() as pool:
        wanted = environment("entries", "preloads", preload=Preload(entry="preloads:make_a_loop"))
        assert (await pool.warm(wanted)).environment == wanted.base
        assert "no hot zygote: the code makes an event loop when it is loaded" in caplog.text
        done = await run(lambda request: pool.take(wanted, request), "entries:echo", b"x")
        assert (done.output, done.worker.how) == (b"x", "fork")


@pytest.mark.anyio
@pytest.mark.parametrize("entry", ["open_a_connection", "open_a_pipe"])
async def test_a_connection_that_is_open_once_the_code_is_loaded_is_each_workers_own(
    environment, run, caplog, tmp_path, entry
):
    address = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        preload = Preload(entry=f"preloads:{entry}", payload=address.encode())
        async with WarmPool() as pool:
            wanted = environment("entries", "preloads", preload=preload)
            assert (await pool.warm(wanted)).environment == wanted.base
            assert "no hot zygote: the code opens a connection or a pipe when it is loaded" in caplog.text
            done = await run(lambda request: pool.take(wanted, request), "entries:echo", b"x")
            assert (done.output, done.worker.how) == (b"x", "fork")


@pytest.mark.anyio
async def test_a_pool_of_processes_that_an_import_has_made_is_each_workers_own(start, run):
    zygote = await start("entries", "makes_a_pool")
    done = await run(zygote.fork, "makes_a_pool:use", b"7")
    assert (done.worker.how, done.status, done.answer) == ("exec", 0, 7)
    assert "an import made a multiprocessing.Queue, or a ProcessPoolExecutor" in done.worker.why


@pytest.mark.anyio
async def test_a_thread_that_has_ended_is_no_hazard(start, run):
    zygote = await start("starts_and_ends_a_thread")
    assert zygote.hazard is None
    assert (await run(zygote.fork, "entries:echo", b"x")).worker.how == "fork"


@pytest.mark.anyio
async def test_a_fork_that_fails_is_a_refusal_and_not_the_end(start, run):
    zygote = await start("breaks_fork")
    done = await run(zygote.fork, "entries:echo", b"x")
    assert (done.worker.how, done.output) == ("exec", b"x")
    assert "no process left" in done.worker.why
    assert zygote.alive


SELF_TEST = """
import sys
from warmpool import selftest, threads
sys.path[:0] = [{faked!r}]
import {module}
print(selftest.fork_and_check(threads.Limits.find(), limit_s={limit_s}))
"""


def self_test(module: str, limit_s: float = 10.0) -> str:
    code = SELF_TEST.format(faked=str(PROGRAMS / "faked"), module=module, limit_s=limit_s)
    root = str(PROGRAMS.parents[2])
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_fk_02_a_hung_self_test_is_ended_and_reported():
    assert self_test("hangs_in_fork", 0.3) == "a worker was forked as a test, and it hung and was ended after 0.3 s"


def test_a_self_test_that_dies_or_fails_is_reported():
    assert self_test("dies_in_fork") == "a worker was forked as a test, and it ended with status -11"
    assert self_test("fails_in_fork") == "a worker was forked as a test, and it failed with RuntimeError: no fork here"


def test_a_self_test_that_passes_says_nothing():
    assert self_test("json") == "None"
