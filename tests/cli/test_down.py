from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response

from tests.cli.conftest import Faas
from tests.cli.platform import coming_up, controlled, record
from tests.served import Seen


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that stands for a platform: it runs until it is told to end."""
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    yield process
    process.kill()
    process.wait()


def test_down_asks_the_platform_to_end_and_waits_for_it(faas: Faas, home: Path, other: subprocess.Popen[bytes]) -> None:
    async def answer(_: Seen) -> Response:
        other.send_signal(signal.SIGTERM)
        return JSONResponse({"stopping": True})

    with controlled(home, answer, pid=other.pid) as platform:
        outcome = faas("down")
    assert (outcome.code, outcome.out) == (0, "the platform has ended\n")
    assert [(s.method, s.path) for s in platform.seen] == [("POST", "/shutdown")]
    assert other.wait(0) == -signal.SIGTERM


def test_down_where_nothing_runs_is_well(faas: Faas, home: Path) -> None:
    assert (faas("down").code, faas("down").out) == (0, "no platform runs here\n")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    record(home, pid=ended.pid)
    assert faas("down").out == "no platform runs here\n"


def test_a_platform_that_is_coming_up_is_ended_by_a_signal(
    faas: Faas, home: Path, other: subprocess.Popen[bytes]
) -> None:
    with coming_up(home, other.pid):
        outcome = faas("down")
    assert (outcome.code, outcome.out) == (0, "the platform has ended\n")
    assert other.wait(0) == -signal.SIGTERM


def test_a_lock_that_nobody_holds_is_no_platform(faas: Faas, home: Path, other: subprocess.Popen[bytes]) -> None:
    with coming_up(home, other.pid):
        pass
    assert faas("down").out == "no platform runs here\n"
    assert other.poll() is None


def test_a_lock_whose_holder_is_not_told_yet_is_no_platform(faas: Faas, home: Path) -> None:
    with coming_up(home, 0):
        (home / "run" / "lock").write_text("")
        assert faas("down").out == "no platform runs here\n"


def test_a_platform_that_does_not_end_in_time_is_an_error(
    faas: Faas, home: Path, other: subprocess.Popen[bytes]
) -> None:
    async def answer(_: Seen) -> Response:
        return JSONResponse({"stopping": True})

    with controlled(home, answer, pid=other.pid):
        outcome = faas("down", "--timeout", "0.1")
    assert outcome.code == 1
    assert f"the platform (process {other.pid}) has not ended within 0.1 s" in outcome.err
    assert "faas down, given again, ends it at once" in outcome.err
    assert other.poll() is None
