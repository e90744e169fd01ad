"""What a worker is made of, whatever the imports of its zygote have left behind."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from warmpool.client import Zygote
from warmpool.launch import exec_worker

pytestmark = pytest.mark.anyio

PYTHONS_OWN = {signal.SIGINT: "default_int_handler", signal.SIGPIPE: "SIG_IGN", signal.SIGXFSZ: "SIG_IGN"}


@pytest.fixture(scope="module")
def temporary(tmp_path_factory):
    return tmp_path_factory.mktemp("untidy")


@pytest.fixture(scope="module")
async def untidy(environment, temporary):
    zygote = await Zygote.start(environment("entries", "untidy", env=(("TMPDIR", str(temporary)),)))
    assert zygote.hazard is None
    yield zygote
    await zygote.stop(stop_workers=True)


async def test_signals_loop_and_collector_are_those_of_a_new_interpreter(untidy, run):
    told = (await run(untidy.fork, "entries:describe")).answer
    for number, handler in told["handlers"].items():
        if int(number) not in (signal.SIGKILL, signal.SIGSTOP):
            assert handler == PYTHONS_OWN.get(int(number), "SIG_DFL"), number
    assert told["blocked"] == []
    assert told["wakeup_fd"] == -1
    assert told["policy"] == "asyncio.unix_events"
    assert told["gc"] is True
    assert told["threads"] == 1
    assert told["parent"] == untidy.pid
    assert told["group"] == told["pid"]
    assert told["argv"] == ["-c"]


async def test_a_worker_that_is_started_by_exec_collects_garbage_once_its_entry_is_imported(environment, run):
    entries = environment("entries")
    done = await run(lambda request: exec_worker(entries, request, "the test asks"), "entries:describe")
    assert done.worker.how == "exec"
    assert done.answer["gc"] is True


async def test_files_of_the_imports_are_private_and_sockets_lead_nowhere(untidy, run):
    texts = await asyncio.gather(*(run(untidy.fork, "untidy:read_on") for _ in range(8)))
    assert [done.output for done in texts] == [b"second\n"] * 8
    assert (await run(untidy.fork, "untidy:use_socket")).output == b"False False"


async def test_exit_callbacks_of_the_worker_run_and_those_of_the_zygote_do_not(untidy, run, temporary, tmp_path):
    exit_file = tmp_path / "exited"
    done = await run(untidy.fork, "entries:at_exit", env={"EXIT_FILE": str(exit_file)})
    assert Path(done.answer) not in temporary.iterdir()  # its own callback ran, and its own folder was removed
    assert not exit_file.exists()
    folder = (await run(untidy.fork, "untidy:tell_folder")).output.decode()
    assert Path(folder) in temporary.iterdir()  # the zygote's own is not its to remove


@pytest.mark.parametrize("how", ["fork", "parked"])
async def test_fk_04_signals_to_a_worker_reach_nobody_else(untidy, up, run, how):
    loop = asyncio.get_running_loop()
    handled: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, handled.append, number)
    try:
        for number in (*numbers, signal.SIGKILL):
            start = untidy.fork if how == "fork" else (await untidy.park()).adopt
            worker = await up(start, "entries:wait")
            os.kill(worker.pid, number)
            assert await worker.wait() == (1 if number == signal.SIGINT else -number)  # KeyboardInterrupt is raised
            for _ in range(5):
                assert (await run(untidy.fork, "entries:echo", b"x")).status == 0
        assert handled == []
        assert untidy.alive
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def test_fk_04_a_terminal_reaches_neither_zygote_nor_worker(untidy, up):
    worker = await up(untidy.fork, "entries:wait")
    ours = os.getsid(0)
    assert os.getsid(untidy.pid) != ours
    assert os.getsid(worker.pid) not in (ours, os.getsid(untidy.pid))
    worker.kill()
    await worker.wait()
