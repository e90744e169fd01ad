"""Instances that cannot be started: who waits is told why, and nothing stays open."""

import asyncio
import errno
import os
import socket
from types import SimpleNamespace

import msgspec
import pytest

from faas.instance_messages import Failed, Imported
from faas.platform.instances import State
from faas.platform.launcher import Launcher
from faas.platform.logs import LogFile
from faas.preparation import Origin, Preparation
from tests.platform.test_loop import description
from warmpool.errors import WorkerStartError

NO_PROCESS = 2**22 + 1
"""Beyond any that Linux gives."""


class Pool:
    """A warm pool that has nothing to give."""

    def __init__(self, error):
        self.error = error

    async def take(self, environment, request):
        raise self.error


def descriptors():
    return len(os.listdir("/proc/self/fd"))


class Telling:
    """A warm pool whose worker tells the platform something, and ends."""

    def __init__(self, *events):
        self.events = events

    async def take(self, environment, request):
        async def wait():
            return 0

        with socket.socket(fileno=os.dup(request.fds["control"])) as control:
            told = b"".join(msgspec.json.encode(event) + b"\n" for event in self.events)
            self.telling = asyncio.ensure_future(asyncio.to_thread(_send, control.dup(), told))
        return SimpleNamespace(pid=NO_PROCESS, how="fork", status=0, wait=wait)


def _send(control, told):
    with control:
        control.sendall(told)


async def launched_from(pool, folder):
    origin = Origin(python="3", sources={}, distributions={})
    preparation = Preparation(description=description(), origin=origin, siblings=("f",), imports=())
    launcher = Launcher(pool, folder, platform_socket=folder / "platform")
    changes = []
    made = launcher.launch(preparation, LogFile(folder, "f"), lambda made: changes.append(made.state))
    await made.ended.wait()
    return made, changes


async def launched(folder, error):
    made, changes = await launched_from(Pool(error), folder)
    assert changes == [State.STOPPED]
    return made


async def test_what_an_instance_tells_may_be_long(tmp_path):
    late = [f"package.module_{number}" for number in range(20_000)]
    pool = Telling(Failed("a" * 500_000), Imported(late))
    made, _ = await launched_from(pool, tmp_path)
    await pool.telling
    assert (made.failure, made.imported, made.status) == ("a" * 500_000, late, 0)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "Cannot allocate memory"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "Too many open files"),
        (WorkerStartError("fork: Resource temporarily unavailable"), "fork: Resource temporarily unavailable"),
    ],
)
async def test_what_the_machine_lacks_is_the_reason_and_nothing_stays_open(tmp_path, error, said):
    await launched(tmp_path, error)
    before = descriptors()
    for _ in range(5):
        made = await launched(tmp_path, error)
        assert made.failure == f"cannot be started: {error}"
        assert said in made.failure
    for _ in range(10):  # the pipe of its output is closed in the next turns of the loop
        await asyncio.sleep(0)
    assert descriptors() == before
    assert list(tmp_path.iterdir()) == [], "its socket is gone"


async def test_a_folder_of_sockets_that_was_tidied_away_is_made_anew(tmp_path):
    folder = tmp_path / "tidied"
    made = await launched(folder, OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
    assert "Cannot allocate memory" in made.failure
    assert folder.stat().st_mode & 0o777 == 0o700
