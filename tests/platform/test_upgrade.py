"""The activator over real sockets: connections that leave HTTP."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.platform.stub import Call, StubInstance, platform, until

ASK = b"GET /f/echo/socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
GRANTED = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"


async def grant(call: Call) -> None:
    """Grant the upgrade and echo in capitals until the other side ends."""
    assert call.request.headers[b"upgrade"] == b"websocket"
    assert call.request.headers[b"connection"] == b"upgrade"
    await call.send(GRANTED)
    while data := await call.reader.read(65536):
        await call.send(data.upper())
    raise ConnectionError


async def test_bytes_pass_both_ways_after_an_upgrade(tmp_path: Path) -> None:
    async with StubInstance(tmp_path, grant) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(ASK + b"early\n")
        assert (await client.head()).raw_head == GRANTED
        assert await client.reader.readline() == b"EARLY\n"
        for number in range(10):
            await client.send(b"\r\n\r\nget / http/1.1 %d\n" % number)
            assert await client.reader.readexactly(4) == b"\r\n\r\n"
            assert await client.reader.readline() == b"GET / HTTP/1.1 %d\n" % number
        assert instance.endpoint.in_flight == 1
        client.leave()
        await instance.disconnected.wait()
        assert running.capacity.counts.cancelled == 0, "to leave is how a tunnel ends"


async def test_much_passes_through_a_tunnel_with_flow_control(tmp_path: Path) -> None:
    async with StubInstance(tmp_path, grant) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(ASK)
        await client.head()
        body = b"abcdefgh" * 1_000_000
        sending = asyncio.ensure_future(client.send(body))
        assert await client.reader.readexactly(len(body)) == body.upper()
        await sending


async def test_an_instance_that_ends_the_tunnel_ends_it_for_its_client(tmp_path: Path) -> None:
    async def brief(call: Call) -> None:
        await call.send(GRANTED + b"bye")
        call.writer.close()
        raise ConnectionError

    async with StubInstance(tmp_path, brief) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(ASK)
        await client.head()
        assert await client.reader.read() == b"bye"
        assert running.capacity.counts.failed == 0


async def test_what_a_client_sends_into_a_tunnel_that_has_ended_is_dropped(tmp_path: Path) -> None:
    async def brief(call: Call) -> None:
        await call.send(GRANTED)
        call.writer.close()
        raise ConnectionError

    async with StubInstance(tmp_path, brief) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(ASK)
        await client.send(b"x" * 1_000_000)
        await client.head()
        with contextlib.suppress(ConnectionError):
            assert await client.reader.read() == b""


async def test_a_declined_upgrade_leaves_the_connection_in_http(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        second = b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
        await client.send(ASK + second)
        await client.send(b"hi")
        assert (await client.answer()).body == b"a:"
        assert (await client.answer()).body == b"a:hi"
        await client.send(ASK)
        assert (await client.answer()).body == b"a:"
        assert (await client.call(b"x")).body == b"a:x"
        assert instance.num_accepted == 1


@pytest.mark.parametrize("protocol", [b"h2c", b"HTTP/2.0"])
async def test_an_upgrade_to_other_http_is_not_passed_on(tmp_path: Path, protocol: bytes) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(ASK.replace(b"websocket", protocol))
        assert (await client.answer()).body == b"a:"
        assert b"upgrade" not in instance.calls[0].headers
        assert (await client.call(b"x")).body == b"a:x"


async def test_an_upgrade_held_at_zero_is_granted_later(tmp_path: Path) -> None:
    async with StubInstance(tmp_path, grant) as instance, platform() as running:
        client = await running.client()
        await client.send(ASK + b"early\n")
        await until(lambda: running.capacity.num_held == 1)
        running.capacity.add(instance.endpoint)
        await client.head()
        assert await client.reader.readline() == b"EARLY\n"
