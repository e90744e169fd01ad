import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Never

import pytest

from benchmarks.processes import ServerError, running
from benchmarks.served import Served, together


class DoesNotStart(AbstractAsyncContextManager[Served]):
    def __init__(self, after: asyncio.Event) -> None:
        self.after = after

    async def __aenter__(self) -> Never:
        await self.after.wait()
        raise ServerError("bad does not start")

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError("left without having been entered")


def test_when_one_of_several_does_not_start_the_others_are_ended(tmp_path: Path):
    ended: list[str] = []

    @asynccontextmanager
    async def good(begun: asyncio.Event) -> AsyncIterator[Served]:
        async with running("good", ["-c", "import signal; signal.pause()"], tmp_path / "good") as server:
            begun.set()
            try:
                yield Served(server, "")
            finally:
                ended.append(server.name)

    async def scenario() -> None:
        begun = asyncio.Event()
        async with together(good(begun), DoesNotStart(begun)):
            raise AssertionError("one of them did not start")

    with pytest.raises(ServerError, match="bad does not start"):
        asyncio.run(scenario())
    assert ended == ["good"]
