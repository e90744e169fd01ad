"""Context variables that middleware sets are those of its own call, over HTTP."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from faas import Calls, inference_function

pytestmark = pytest.mark.anyio

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


class Tenants:
    """Sets the variable to what a header says."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = dict(scope["headers"]).get(b"x-tenant")
        if named is not None:
            TENANT.set(named.decode())
        await self._inner(scope, receive, send)


@inference_function(name="plain", middleware=[Tenants], calls=Calls(max_queue=1000))
def plain(x: Any) -> str:
    return TENANT.get()


@inference_function(name="later", middleware=[Tenants], calls=Calls(max_queue=1000))
async def later(x: Any) -> str:
    await asyncio.sleep(0.001)
    return TENANT.get()


@inference_function(name="each", middleware=[Tenants], calls=Calls(max_queue=1000))
def each(x: Any) -> Iterator[str]:
    yield TENANT.get()


@inference_function(name="each-later", middleware=[Tenants], calls=Calls(max_queue=1000))
async def each_later(x: Any) -> AsyncIterator[str]:
    yield TENANT.get()


@pytest.mark.parametrize("function", [plain, later, each, each_later], ids=lambda function: function.name)
async def test_each_call_sees_its_own(serving, function):
    async with serving(function) as served:
        names = [f"t{n}" for n in range(150)]  # more than an instance computes at once
        answers = await asyncio.gather(*(served.post(name, headers={"x-tenant": name}) for name in names))
        found = [one.json() for one in answers]
        assert [one[0] if isinstance(one, list) else one for one in found] == names
        assert "nobody" in (await served.post("x")).text


@pytest.mark.parametrize("function", [plain, later], ids=lambda function: function.name)
@pytest.mark.parametrize("num_bytes", [10, 1 << 20])
async def test_a_connection_hands_nothing_on_to_the_next_call(serving, function, num_bytes):
    async with serving(function) as served:
        reader, writer = await served.raw()
        for tenant, said in ((b"x-tenant: first\r\n", b'"first"'), (b"", b'"nobody"'), (b"", b'"nobody"')):
            body = b'"%b"' % (b"x" * num_bytes)
            head = b"POST / HTTP/1.1\r\nhost: x\r\n%bcontent-length: %d\r\n\r\n" % (tenant, len(body))
            writer.write(head + body)
            assert said in await _answer(reader)
        writer.close()


async def test_nor_do_calls_that_are_sent_ahead(serving):
    async with serving(later) as served:
        reader, writer = await served.raw()
        for tenant in (b"x-tenant: first\r\n", b"", b"x-tenant: third\r\n", b""):
            writer.write(b'POST / HTTP/1.1\r\nhost: x\r\n%bcontent-length: 3\r\n\r\n"x"' % tenant)
        for said in (b'"first"', b'"nobody"', b'"third"', b'"nobody"'):
            assert said in await _answer(reader)
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.partition(b":")[2]))
