"""Parked workers with a real device context."""

import json
import os
import sys
from pathlib import Path

import pytest

from warmpool.environment import Environment, Preload
from warmpool.pool import WarmPool
from warmpool.protocol import Request

pytestmark = [pytest.mark.gpu, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def compute(payload: bytes, fds: dict[str, int]) -> None:
    """What a worker runs: whether it had a context when it came, and a sum that the device makes."""
    import torch

    had = torch.cuda.is_initialized()
    with os.fdopen(fds["out"], "w") as out:
        json.dump([had, int(torch.arange(10, device="cuda").sum())], out)


async def test_they_have_their_context_when_they_are_taken_and_the_zygote_has_none() -> None:
    environment = Environment(
        modules=("torch", "faas.parked", "tests.gpu.test_parked"),
        sys_path=(str(Path(__file__).parents[2]), *sys.path),
        park=Preload(entry="faas.parked:begin_on_gpu"),
    )
    async with WarmPool(buffer=2) as pool:
        zygote = await pool.warm(environment)
        for expected in ("parked", "parked"):
            reader, writer = os.pipe()
            request = Request(entry="tests.gpu.test_parked:compute", fds={"out": writer})
            worker = await pool.take(environment, request)
            os.close(writer)
            assert (await worker.wait(), worker.how) == (0, expected)
            with os.fdopen(reader) as told:
                assert json.load(told) == [True, 45]
        assert zygote.hazard is None
        held = [os.readlink(f"/proc/{zygote.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{zygote.pid}/fd")]
        assert not any("nvidia" in path for path in held)
