"""A platform of this machine whose control interface a test writes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from starlette.responses import JSONResponse, Response

from tests.served import Answer, Seen, Served, serving


def record(home: Path, *, pid: int | None = None, url: str = "http://127.0.0.1:1", control: str = "unused") -> None:
    """Write the record of a platform that was killed."""
    run = home / "run"
    run.mkdir(parents=True, exist_ok=True)
    content = {"pid": os.getpid() if pid is None else pid, "url": url, "control": control}
    (run / "platform.tmp").write_text(json.dumps(content))
    (run / "platform.tmp").replace(run / "platform.json")


@contextlib.contextmanager
def recorded(
    home: Path, *, pid: int | None = None, url: str = "http://127.0.0.1:1", control: str = "unused"
) -> Iterator[None]:
    """Hold and write what a running platform does."""
    with coming_up(home, os.getpid() if pid is None else pid):
        record(home, pid=pid, url=url, control=control)
        yield


@contextlib.contextmanager
def controlled(home: Path, answer: Answer, *, pid: int | None = None) -> Iterator[Served]:
    """Serve a control interface at the path that a record names."""
    with serving(answer, path=home.parent / "c") as served, recorded(home, pid=pid, control=served.url):
        yield served


@contextlib.contextmanager
def coming_up(home: Path, pid: int) -> Iterator[None]:
    """Hold what a platform of the process `pid` holds that has not recorded itself yet."""
    run = home / "run"
    run.mkdir(parents=True, exist_ok=True)
    with (run / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(str(pid))
        lock.flush()
        yield


def refusal(status: int, detail: str) -> Response:
    """Return a problem, as the control interface tells it."""
    return JSONResponse({"type": "about:blank", "status": status, "detail": detail}, status)


def always(value: object) -> Answer:
    """Answer everything with `value`."""

    async def answer(_: Seen) -> Response:
        return JSONResponse(value)

    return answer
