"""What a parked worker has before anybody needs it."""

import json
import logging
import os
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from faas import parked, revision
from faas.instance_messages import Revision
from warmpool.environment import Environment, Preload
from warmpool.pool import WarmPool
from warmpool.protocol import Request

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def look(payload: bytes, fds: dict[str, int]) -> None:
    """What a worker runs: say what it had when it was taken, and whether its event loop runs."""

    async def running() -> bool:
        return True

    found = {
        "made": parked._runner is not None,
        "logs": bool(logging.getLogger().handlers),
        "preloaded": revision.is_preloaded(),
        "threads": threading.active_count(),
    }
    with parked.runner() as runner:
        found["runs"] = runner.run(running())
    with os.fdopen(fds["out"], "w") as out:
        json.dump(found, out)


async def taken(buffer: int, preload: Preload | None = None) -> tuple[str, dict[str, object]]:
    environment = Environment(
        modules=("faas.instance", "tests.test_parked"),
        sys_path=(str(Path(__file__).parents[1]), *sys.path),
        preload=preload,
        park=Preload(entry="faas.parked:begin"),
    )
    async with WarmPool() as pool:
        await pool.warm(environment, buffer=buffer)
        reader, writer = os.pipe()
        worker = await pool.take(environment, Request(entry="tests.test_parked:look", fds={"out": writer}))
        os.close(writer)
        assert await worker.wait() == 0
        with os.fdopen(reader) as told:
            return worker.how, json.load(told)


async def test_it_has_an_event_loop_and_what_else_no_zygote_makes() -> None:
    had = {"made": True, "logs": True, "preloaded": False, "threads": 1, "runs": True}
    assert await taken(1) == ("parked", had)


async def test_with_a_preloaded_revision_the_event_loop_is_all_that_it_lacked() -> None:
    payload = msgspec.json.encode(Revision(id="r", target="handlers.echo", function="echo"))
    had = {"made": True, "logs": True, "preloaded": True, "threads": 1, "runs": True}
    assert await taken(1, Preload(entry="faas.revision:preload", payload=payload)) == ("parked", had)


async def test_a_worker_that_was_not_parked_makes_its_own() -> None:
    had = {"made": False, "logs": False, "preloaded": False, "threads": 1, "runs": True}
    assert await taken(0) == ("fork", had)
