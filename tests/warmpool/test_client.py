import asyncio
import contextlib
import hashlib
import json
import logging
import os
import resource
import signal
import tempfile

import pytest

from tests.warmpool.conftest import marked, zombies_of
from warmpool.client import Zygote
from warmpool.errors import ProtocolError, ZygoteDied, ZygoteStartError
from warmpool.process import STATUS_UNKNOWN
from warmpool.protocol import INLINE_PAYLOAD_BYTES, Request

pytestmark = pytest.mark.anyio


async def test_a_worker_is_forked_with_its_payload_and_descriptors(zygote, run):
    done = await run(zygote.fork, "entries:echo", b"hello")
    assert (done.status, done.output, done.worker.how, done.worker.why) == (0, b"hello", "fork", None)
    assert done.worker.status == 0


@pytest.mark.parametrize("num_bytes", [0, 1, INLINE_PAYLOAD_BYTES, INLINE_PAYLOAD_BYTES + 1, 40_000_000])
async def test_payloads_of_any_size_arrive_whole(zygote, run, num_bytes):
    payload = os.urandom(num_bytes)
    done = await run(zygote.fork, "entries:digest", payload)
    assert done.answer == [num_bytes, hashlib.sha256(payload).hexdigest()]


async def test_a_big_payload_leaves_nothing_in_the_zygote(zygote, run):
    await run(zygote.fork, "entries:echo", b"x")
    before = resident_bytes(zygote.pid)
    for _ in range(3):
        await run(zygote.fork, "entries:digest", bytes(40_000_000))
    assert resident_bytes(zygote.pid) - before < 20_000_000


def read_to_its_end(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("entry", "payload", "status"),
    [
        ("return_status", b"7", 7),
        ("return_words", b"seven", 1),
        ("leave", b"3", 3),
        ("leave", b"0", 0),
        ("leave_with_words", b"out of luck", 1),
        ("fail", b"", 1),
        ("no_such_entry", b"", 1),
        ("signal_self", b"%d" % signal.SIGKILL, -signal.SIGKILL),
        ("signal_self", b"%d" % signal.SIGABRT, -signal.SIGABRT),
        ("signal_self", b"%d" % signal.SIGTERM, -signal.SIGTERM),
    ],
)
async def test_exit_statuses(zygote, run, entry, payload, status):
    assert (await run(zygote.fork, f"entries:{entry}", payload)).status == status


async def test_an_exception_of_the_entry_goes_to_the_given_stderr(zygote):
    with tempfile.TemporaryFile() as file:
        worker = await zygote.fork(Request(entry="entries:fail", payload=b"x", fds={"stderr": file.fileno()}))
        assert await worker.wait() == 1
        file.seek(0)
        assert file.read().decode().rstrip().endswith("LookupError: no such thing: x")


async def test_both_streams_go_where_the_request_says(zygote, run):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        fds = {"stdout": out.fileno(), "stderr": err.fileno()}
        worker = await zygote.fork(Request(entry="entries:say", payload=b"hello", fds=fds))
        assert await worker.wait() == 0
        out.seek(0)
        err.seek(0)
        assert (out.read(), err.read()) == (b"hello\n", b"hello\n")


async def test_what_native_code_has_printed_is_written_and_once(start):
    zygote = await start("prints_from_c")
    for words in (b"one", b"two"):
        with tempfile.TemporaryFile() as out:
            request = Request(entry="prints_from_c:say", payload=words, fds={"stdout": out.fileno()})
            assert await (await zygote.fork(request)).wait() == 0
            out.seek(0)
            assert out.read() == words + b"\n"


async def test_a_line_is_in_the_log_before_the_worker_dies(zygote):
    with tempfile.TemporaryFile() as out:
        request = Request(entry="entries:say_and_die", payload=b"last words", fds={"stdout": out.fileno()})
        assert await (await zygote.fork(request)).wait() == -signal.SIGKILL
        out.seek(0)
        assert out.read() == b"last words\n"


async def test_environment_folder_and_paths_of_the_request(zygote, run, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("from entries import describe as main\n")
    done = await run(
        zygote.fork,
        "mine:main",
        env={"COLOUR": "blue", "HOME": None},
        cwd=str(tmp_path),
        sys_path=(str(tmp_path),),
    )
    told = done.answer
    assert told["env"]["COLOUR"] == "blue"
    assert "HOME" not in told["env"]
    assert told["cwd"] == told["path"][0] == str(tmp_path)
    again = (await run(zygote.fork, "entries:describe")).answer
    assert "COLOUR" not in again["env"]
    assert str(tmp_path) not in again["path"]


async def test_a_worker_holds_only_what_it_was_given(zygote, run):
    others = [await zygote.fork(Request(entry="entries:wait", fds={"out": 2})) for _ in range(3)]
    told = (await run(zygote.fork, "entries:describe")).answer
    held = {int(fd): target for fd, target in told["fds"].items()}
    out = told["given"]["out"]
    assert set(held) - {0, 1, 2} - {out} == {lifeline_of(held, out)}
    for worker in others:
        worker.kill()
        await worker.wait()


def lifeline_of(held: dict[int, str], out: int) -> int:
    """Return the one descriptor that is neither a standard stream nor given: a pipe."""
    (fd,) = [fd for fd, target in held.items() if fd > 2 and fd != out and target.startswith("pipe:")]
    return fd


async def test_two_hundred_forks_leave_no_descriptor_and_no_zombie(zygote, run):
    await run(zygote.fork, "entries:echo", b"x" * 50_000)
    before = await counts_at_rest(zygote)
    resident = resident_bytes(zygote.pid)
    for number in range(200):
        done = await run(zygote.fork, "entries:echo", b"x" * 50_000 if number % 10 == 0 else b"x")
        assert done.status == 0
    assert await counts_at_rest(zygote) == before
    assert before[2] == []
    assert resident_bytes(zygote.pid) - resident < 4_000_000


async def counts_at_rest(zygote: Zygote) -> tuple[int, int, list[int]]:
    """Return the descriptors of the zygote and of this process, and the zygote's children, dead or alive.

    A zygote tells of a worker's end first and then looks, through a descriptor, for what the worker has left behind.
    """
    while process_state(zygote.pid) != "S":
        await asyncio.sleep(0.001)
    return len(os.listdir(f"/proc/{zygote.pid}/fd")), len(os.listdir("/proc/self/fd")), children_of(zygote.pid)


def process_state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        return [int(child) for child in children.read().split()]


async def test_many_at_once(zygote, run):
    runs = await asyncio.gather(*(run(zygote.fork, "entries:echo", b"%d" % number) for number in range(40)))
    assert [done.output for done in runs] == [b"%d" % number for number in range(40)]
    assert len({done.worker.pid for done in runs}) == 40


async def test_the_name_of_a_module_that_cannot_be_imported_is_told_and_the_rest_works(start, run):
    zygote = await start("json", "broken", "leaver", "no_such_module", "entries")
    assert zygote.failed == {
        "broken": "RuntimeError: no licence found",
        "leaver": "SystemExit: 3",
        "no_such_module": "ModuleNotFoundError: No module named 'no_such_module'",
    }
    assert (await run(zygote.fork, "entries:echo", b"x")).worker.how == "fork"


async def test_three_thousand_modules_fit(start):
    modules = ["json"] * 3_000 + ["a_package_that_is_missing.and_a_part_of_it_with_a_long_name"]
    zygote = await start(*modules * 3)
    assert list(zygote.failed) == modules[-1:]


async def test_an_import_that_kills_the_zygote_is_a_start_error(environment):
    with pytest.raises(ZygoteStartError, match=r"ended with status -11 while it imported \['crasher'\]"):
        await Zygote.start(environment("crasher"))


async def test_an_import_that_never_ends_is_a_start_error(environment):
    with pytest.raises(ZygoteStartError, match=r"was not ready after 0\.5 s"):
        await Zygote.start(environment("sleeper"), timeout_s=0.5)


async def test_an_interpreter_that_is_not_there_is_a_start_error(environment):
    with pytest.raises(ZygoteStartError, match="could not be started"):
        await Zygote.start(environment(python="/no/such/python"))


async def test_a_start_that_is_cancelled_leaves_nothing(environment):
    starting = asyncio.ensure_future(Zygote.start(environment("sleeper")))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_a_fork_that_is_cancelled_leaves_no_worker(zygote, run):
    forking = asyncio.ensure_future(zygote.fork(Request(entry="entries:wait", fds={"out": 2})))
    await asyncio.sleep(0)
    forking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await forking
    copying = asyncio.ensure_future(zygote.fork(Request(entry="entries:digest", payload=bytes(40_000_000))))
    await asyncio.sleep(0)
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    await run(zygote.fork, "entries:digest", bytes(40_000_000))  # the zygote answers in order
    assert children_of(zygote.pid) == []


async def test_what_is_too_big_for_a_message_is_refused_by_name(zygote, run):
    with pytest.raises(ProtocolError, match="is over the limit of"):
        await zygote.fork(Request(entry="entries:echo", env={"BIG": "x" * 200_000}))
    with pytest.raises(ProtocolError, match="is not open"):
        await zygote.fork(Request(entry="entries:echo", fds={"out": 12_345}))
    with pytest.raises(ProtocolError, match="descriptors in one message"):
        await zygote.fork(Request(entry="entries:echo", fds={str(number): 2 for number in range(300)}))
    assert (await run(zygote.fork, "entries:echo", b"x")).output == b"x"


async def test_a_hung_worker_can_be_killed(zygote, up):
    worker = await up(zygote.fork, "entries:hang")
    assert worker.kill(signal.SIGTERM)
    assert worker.status is None
    assert worker.kill()
    assert await worker.wait() == -signal.SIGKILL


async def test_a_worker_that_has_ended_is_not_signalled(zygote, run):
    done = await run(zygote.fork, "entries:echo", b"x")
    assert done.worker.kill() is False


async def test_a_signal_to_its_own_process_group_stays_with_the_worker(zygote, up, run):
    other = await up(zygote.fork, "entries:wait")
    assert (await run(zygote.fork, "entries:kill_group")).status == -signal.SIGTERM
    assert zygote.alive
    assert other.status is None
    other.kill()
    await other.wait()


@pytest.mark.parametrize("entry", ["start_children", "start_daemons"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_what_a_worker_has_started_ends_with_it(zygote, ended, number, entry):
    reader, writer = os.pipe()
    worker = await zygote.fork(Request(entry=f"entries:{entry}", fds={"out": writer}))
    children = [os.pidfd_open(pid) for pid in json.loads(await asyncio.to_thread(os.read, reader, 1000))]
    worker.kill(number)
    assert await worker.wait() == -number
    assert all(ended(child, 10) for child in children)
    while zombies_of(zygote.pid):
        await asyncio.sleep(0.005)
    for fd in (reader, writer, *children):
        os.close(fd)


async def test_workers_live_on_when_their_zygote_is_killed(start, up):
    zygote = await start("entries")
    worker = await up(zygote.fork, "entries:wait")
    parked = await zygote.park()
    os.kill(zygote.pid, signal.SIGKILL)
    assert await zygote.process.wait() == -signal.SIGKILL
    assert not zygote.alive
    with pytest.raises(ZygoteDied):
        await zygote.fork(Request(entry="entries:wait"))
    reader, writer = os.pipe()
    adopted = await parked.adopt(Request(entry="entries:echo", payload=b"still here", fds={"out": writer}))
    os.close(writer)
    assert await asyncio.to_thread(os.read, reader, 100) == b"still here"
    os.close(reader)
    assert worker.status is None
    assert worker.kill(signal.SIGTERM)
    assert await worker.wait() == STATUS_UNKNOWN
    assert await adopted.wait() == STATUS_UNKNOWN


async def test_a_fork_in_flight_when_the_zygote_dies_is_told(start):
    zygote = await start("entries")
    os.kill(zygote.pid, signal.SIGSTOP)  # so that it cannot answer before it dies
    forking = asyncio.ensure_future(zygote.fork(Request(entry="entries:wait")))
    await asyncio.sleep(0)
    os.kill(zygote.pid, signal.SIGKILL)
    with pytest.raises(ZygoteDied, match=f"zygote {zygote.pid} died before it answered"):
        await forking


@pytest.mark.parametrize("_", range(8))
async def test_a_worker_whose_zygote_dies_as_it_forks_runs_if_the_client_is_told_of_it_and_else_not(start, _):
    zygote = await start("entries", "dies_once_it_has_forked")
    reader, writer = os.pipe()
    try:
        worker = await zygote.fork(Request(entry="entries:echo", payload=b"x", fds={"out": writer}))
        told = True
        await worker.wait()
    except ZygoteDied:
        told = False
    finally:
        os.close(writer)
    output = await asyncio.to_thread(read_to_its_end, reader)  # then whatever held the other end has ended
    assert output == (b"x" if told else b"")


async def test_a_worker_that_ends_before_it_runs_anything_becomes_an_exec(start, run):
    zygote = await start("entries", "breaks_workers")
    done = await run(zygote.fork, "entries:echo", b"x")
    assert (done.worker.how, done.status, done.output) == ("exec", 0, b"x")
    assert "the worker ended with status -9 before it ran anything" in done.worker.why


async def test_a_zygote_that_does_not_answer_is_killed(start, monkeypatch):
    zygote = await start("entries")
    monkeypatch.setattr("warmpool.client.ANSWER_TIMEOUT_S", 0.2)
    os.kill(zygote.pid, signal.SIGSTOP)
    with pytest.raises(ZygoteDied, match=r"did not answer in 0\.2 s"):
        await zygote.fork(Request(entry="entries:wait"))
    assert await zygote.process.wait() == -signal.SIGKILL


async def test_a_worker_that_hangs_as_it_is_forked_is_not_waited_for_while_others_come(
    start, run, monkeypatch, mark, ended
):
    before = set(marked(mark))
    zygote = await start("entries", "hangs_its_first_worker")
    monkeypatch.setattr("warmpool.client.ANSWER_TIMEOUT_S", 1.0)
    hanging = asyncio.ensure_future(zygote.fork(Request(entry="entries:echo")))
    await asyncio.sleep(0)  # it is asked for first
    async with asyncio.timeout(20):
        while not hanging.done():
            with contextlib.suppress(ZygoteDied):
                await run(zygote.fork, "entries:echo", b"x")
            await asyncio.sleep(0)  # a zygote that is gone refuses at once
        with pytest.raises(ZygoteDied, match=r"did not answer in 1\.0 s"):
            await hanging
    assert zygote.num_forked > 0
    for pid in set(marked(mark)) - before:  # whoever was being forked as the zygote was given up ends by itself
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)
            assert ended(pidfd, 10)
            os.close(pidfd)


async def test_stopping_leaves_the_workers_unless_told(start, up):
    zygote = await start("entries")
    worker = await up(zygote.fork, "entries:wait")
    await zygote.stop()
    assert worker.status is None
    worker.kill()
    await worker.wait()

    zygote = await start("entries")
    worker, stubborn = await up(zygote.fork, "entries:wait"), await up(zygote.fork, "entries:hang")
    await zygote.stop(stop_workers=True, grace_s=0.2)
    assert (worker.status, stubborn.status) == (-signal.SIGTERM, -signal.SIGKILL)


async def test_parked_workers_are_adopted_with_payload_descriptors_and_environment(zygote, run):
    parked = await zygote.park()
    done = await run(parked.adopt, "entries:echo", bytes(200_000))
    assert (done.worker.how, done.worker.pid, done.status) == ("parked", parked.worker.pid, 0)
    assert done.output == bytes(200_000)
    parked = await zygote.park()
    told = (await run(parked.adopt, "entries:describe", env={"COLOUR": "red"})).answer
    assert told["env"]["COLOUR"] == "red"
    assert len([fd for fd in told["fds"] if int(fd) > 2]) == 2  # `out` and the lifeline


async def test_adopting_a_parked_worker_that_has_died_says_so(zygote):
    parked = await zygote.park()
    parked.worker.kill()
    with pytest.raises(BrokenPipeError):
        await parked.adopt(Request(entry="entries:echo"))
    await parked.worker.wait()


async def test_a_refused_fork_becomes_an_exec_and_says_why(start, run, caplog):
    zygote = await start("thread_starter")
    assert zygote.hazard is not None
    with caplog.at_level(logging.WARNING):
        done = await run(zygote.fork, "entries:echo", b"x" * 100_000)
    assert (done.worker.how, done.status, done.output) == ("exec", 0, b"x" * 100_000)
    assert "the zygote has 2 threads and must have 1; those of Python: telemetry" in done.worker.why
    assert done.worker.why in caplog.text
    assert "entries:echo" in caplog.text


async def test_a_zygote_without_descriptors_refuses_and_goes_on(start, run):
    zygote = await start("entries")
    await run(zygote.fork, "entries:echo", b"x")
    _, hard_limit = resource.prlimit(zygote.pid, resource.RLIMIT_NOFILE)
    reasons = []
    for limit in range(3, 10):  # 0 to 2 are taken
        resource.prlimit(zygote.pid, resource.RLIMIT_NOFILE, (limit, hard_limit))
        done = await run(zygote.fork, "entries:echo", b"x")
        assert (done.status, done.output) == (0, b"x")
        reasons.append(done.worker.why)
    assert "0 descriptors came with a message of 2: raise the limit of open files" in reasons[0]
    assert reasons[-1] is None
    assert zygote.alive
