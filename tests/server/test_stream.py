"""Events on their way to the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from faas import inference_function
from faas.messages import Call, Context
from faas.server import stream

pytestmark = pytest.mark.anyio


class Caller:
    """Hears what is sent, and may be slow to take it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.more = True
        self.took = asyncio.Event()
        self.takes = asyncio.Event()
        self.takes.set()

    async def __call__(self, message: Any) -> None:
        assert self.more, "sent after the end"
        await self.takes.wait()
        self.heard.append(message["body"])
        self.more = message["more_body"]
        self.took.set()

    async def hears(self, piece: bytes) -> None:
        async with asyncio.timeout(10):
            while piece not in self.heard:
                self.took.clear()
                await self.took.wait()


def pumping(call: Call, caller: Caller, quiet_s: float) -> asyncio.Task[int]:
    async def pump() -> int:
        return await stream.pump(caller, call, b"", call.events(), lambda _: (500, b"{}"), quiet_s=quiet_s)

    return asyncio.create_task(pump())


async def test_a_stream_that_is_quiet_for_long_says_that_it_is_there():
    call, caller = Call({}, Context("x")), Caller()
    task = pumping(call, caller, 0.05)
    await caller.hears(b":\n\n")
    call.put(1)
    await caller.hears(b"data: 1\n\n")
    caller.heard.clear()
    await caller.hears(b":\n\n")
    call.finish(2)
    assert await task == 200
    assert caller.heard[-2:] == [b"data: 2\n\n", b""]


async def test_to_a_caller_who_does_not_read_nothing_is_said():
    call, caller = Call({}, Context("x")), Caller()
    caller.takes.clear()
    task = pumping(call, caller, 0.02)
    call.put(1)
    await asyncio.sleep(0.2)
    call.finish(2)
    caller.takes.set()
    assert await task == 200
    assert caller.heard == [b"data: 1\n\n", b"data: 2\n\n", b""]


async def test_the_end_does_not_wait_for_what_says_that_nothing_came():
    call, caller = Call({}, Context("x")), Caller()
    caller.takes.clear()
    task = pumping(call, caller, 0.02)
    await asyncio.sleep(0.2)  # the comment waits to be taken
    call.finish(2)
    await asyncio.sleep(0)
    caller.takes.set()
    assert await task == 200
    assert caller.heard[-2:] == [b"data: 2\n\n", b""]


@pytest.mark.parametrize(
    "accept", ["text/event-stream", "Text/Event-Stream", "application/json, text/EVENT-stream;q=1"]
)
async def test_events_are_asked_for_in_letters_of_any_case(serving, accept):
    def numbers(n: int) -> Iterator[int]:
        yield from range(n)

    @inference_function
    def count(n: int) -> Iterator[int]:
        return numbers(n)

    async with serving(count) as served:
        response = await served.post(2, headers={"Accept": accept})
        assert response.text == "data: 0\n\ndata: 1\n\n"
        assert response.headers["content-type"].startswith("text/event-stream")
        assert (await served.post(2)).json() == [0, 1]
