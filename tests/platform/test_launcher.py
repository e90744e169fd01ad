"""Instances that cannot be started: who waits is told why, and nothing stays open."""

import asyncio
import errno
import os

import pytest

from faas.platform.instances import State
from faas.platform.launcher import Launcher
from faas.platform.logs import LogFile
from faas.preparation import Origin, Preparation
from tests.platform.test_loop import description
from warmpool.errors import WorkerStartError


class Pool:
    """A warm pool that has nothing to give."""

    def __init__(self, error):
        self.error = error

    async def take(self, environment, request):
        raise self.error


def descriptors():
    return len(os.listdir("/proc/self/fd"))


async def launched(folder, error):
    origin = Origin(python="3", sources={}, distributions={})
    preparation = Preparation(description=description(), origin=origin, siblings=("f",), imports=())
    launcher = Launcher(Pool(error), folder, platform_socket=folder / "platform")
    changes = []
    made = launcher.launch(preparation, LogFile(folder, "f"), lambda made: changes.append(made.state))
    await made.ended.wait()
    assert changes == [State.STOPPED]
    return made


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
