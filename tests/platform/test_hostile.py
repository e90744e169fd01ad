"""The activator over real sockets: what is not quite HTTP."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.platform.stub import StubInstance, platform, until

GOOD = b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 431),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ],
)
async def test_malformed_requests_get_an_answer_and_the_end(tmp_path: Path, data: bytes, status: int) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(data)
        answer = await client.answer()
        assert (answer.status, answer.headers[b"connection"]) == (status, b"close")
        assert answer.headers[b"content-type"] == b"application/problem+json"
        assert await client.at_end()
        assert instance.calls == []
        assert running.activator.clients.counts.malformed == 1


async def test_good_requests_before_a_bad_one_are_answered_first(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(GOOD * 3 + b"GET / HTTP/1.1\r\nbad header\r\n\r\n")
        for _ in range(3):
            assert (await client.answer()).body == b"a:hi"
        assert (await client.answer()).status == 400
        assert await client.at_end()


async def test_a_bad_chunk_ends_the_request_at_the_instance_too(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await until(lambda: len(instance.calls) == 1)
        await client.send(b"rubbish\r\n")
        assert (await client.answer()).status == 400
        await instance.disconnected.wait()


async def test_a_request_hidden_in_a_body_stays_a_body(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        hidden = b"GET /f/echo/secret HTTP/1.1\r\nHost: a\r\n\r\n"
        assert (await client.call(hidden)).body == b"a:" + hidden
        chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden)
        await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked)
        assert (await client.answer()).body == b"a:" + hidden
        assert {call.path for call in instance.calls} == {b"/"}


async def test_whatever_is_sent_the_activator_stays_up_and_owes_nothing(tmp_path: Path) -> None:
    rng = random.Random(7)
    pieces = [GOOD, b"\r\n", b"\x00", b"GET ", b"HTTP/1.1\r\n", b"Host: a\r\n", b"Content-Length: 5\r\n", b"0\r\n\r\n"]
    pieces += [b"Transfer-Encoding: chunked\r\n", b"Connection: upgrade\r\nUpgrade: websocket\r\n", b"POST /f/echo/ "]
    async with StubInstance(tmp_path) as instance, platform(instance, limit=4) as running:
        for _ in range(150):
            client = await running.client()
            for _ in range(rng.randrange(1, 6)):
                await client.send(b"".join(rng.choices(pieces, k=rng.randrange(1, 5))))
                if rng.random() < 0.5:
                    await asyncio.sleep(0)
            client.leave()
        client = await running.client()
        assert (await client.call(b"hi")).body == b"a:hi"
