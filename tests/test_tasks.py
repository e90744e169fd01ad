from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faas import slow_steps, tasks
from faas.deployment import bundling
from faas.errors import NotPrepared
from faas.prepare import prepare
from faas.slow_steps import Ongoing

MODULE = "faas.deployment.bundling"


def children() -> set[str]:
    """Return the processes that this one has started."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def test_what_was_started_ahead_and_gets_no_task_is_ended(capfd: pytest.CaptureFixture[str]) -> None:
    async def nothing() -> set[str]:
        before = children()
        async with tasks.ahead(MODULE) as waiting:
            assert waiting.is_waiting
            started = children() - before
        assert not waiting.is_waiting
        return started & children()

    assert asyncio.run(nothing()) == set()
    assert capfd.readouterr().err == ""


def test_what_was_started_ahead_does_one_task(tmp_path: Path) -> None:
    async def fails() -> list[str]:
        said: list[str] = []
        task = bundling.Task(target=str(tmp_path / "none.py"), folder=str(tmp_path / "b"))
        async with tasks.ahead(MODULE) as waiting:
            with pytest.raises(NotPrepared, match="there is no such file"):
                await waiting.run(task, bundling.OUTCOMES, said.append, what="a bundle")
            assert not waiting.is_waiting
        return said

    assert asyncio.run(fails()) == [f"packing {tmp_path / 'none.py'}"]


HANGS = """
import ctypes, os
from faas import inference_function

@inference_function
class Hangs:
    def setup(self):
        {wait}

    def predict(self, x: int) -> int:
        return x
"""


def made_while_it_waits(folder: Path, wait: str) -> list[str]:
    """Make a function ready whose setup() waits for a pipe, until that is told; returns what is told of it."""
    gate, app, told = folder / "gate", folder / "app.py", []
    os.mkfifo(gate)
    app.write_text(HANGS.replace("{wait}", wait.replace("GATE", repr(str(gate)))))

    def progress(text: str) -> None:
        if isinstance(text, Ongoing) and "setting up" in text:
            told.append(str(text))
            os.close(os.open(gate, os.O_WRONLY))

    asyncio.run(prepare(str(app), folder / "store", progress=progress))
    return told


def test_a_setup_that_hangs_is_told_with_how_long_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_steps, "FIRST_S", 0.2)
    monkeypatch.setattr(slow_steps, "ANSWER_S", 60.0)
    told = made_while_it_waits(tmp_path, "open(GATE).read()")
    wanted = r"still setting up hangs after \d+ s, at .*app\.py:8 in Hangs\.setup: open\(.*gate'\)\.read\(\)"
    assert re.fullmatch(wanted, told[0]), told


def test_a_setup_that_keeps_the_interpreter_is_told_of_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_steps, "FIRST_S", 0.2)
    monkeypatch.setattr(slow_steps, "ANSWER_S", 0.2)
    told = made_while_it_waits(tmp_path, "ctypes.PyDLL(None).open(os.fsencode(GATE), 0)")
    assert any(re.fullmatch(r"still setting up hangs after \d+ s", one) for one in told), told


def test_a_setup_that_hangs_ends_with_who_waits_for_it_killed_or_not(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        HANGS.replace("{wait}", "os.write(2, b'%d is held\\n' % os.getpid()); import signal; signal.pause()")
    )
    command = [sys.executable, "-m", "faas.cli.main", "snapshot", "create", "app.py"]
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        environment = {**os.environ, "FAAS_HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            pid = next(int(line.split()[0]) for line in process.stderr if line.endswith(" is held\n"))
            descriptor = os.pidfd_open(pid)
            try:
                process.send_signal(signum)
                assert select.select([descriptor], [], [], 20)[0]
                assert "Traceback" not in process.stderr.read()
                assert process.wait(20) != 0
            finally:
                os.close(descriptor)
