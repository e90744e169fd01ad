"""Nobody outlives the client, however it ends and whatever they are doing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.anyio

CLIENT = Path(__file__).parent / "programs" / "client.py"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_fk_06_zygote_and_workers_end_with_the_client(ended, number):
    environ = os.environ | {"PYTHONPATH": str(CLIENT.parents[3])}
    with subprocess.Popen([sys.executable, CLIENT], env=environ, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        pids = json.loads(client.stdout.readline())
        assert len(pids) == 7
        pidfds = [os.pidfd_open(pid) for pid in pids]
        assert not any(ended(pidfd, 0) for pidfd in pidfds)
        client.send_signal(number)
        client.wait()
        try:
            assert all(ended(pidfd, 10) for pidfd in pidfds)
        finally:
            for pidfd in pidfds:
                os.close(pidfd)


@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_an_import_has_started_ends_with_its_zygote(start, run, ended, is_killed):
    zygote = await start("entries", "starts_a_child")
    pidfd = os.pidfd_open((await run(zygote.fork, "starts_a_child:tell")).answer)
    try:
        assert not ended(pidfd, 0)
        if is_killed:
            zygote.process.kill()
            await zygote.process.wait()
        else:
            await zygote.stop()
        assert ended(pidfd, 10)
    finally:
        os.close(pidfd)
