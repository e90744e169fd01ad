"""Connections whose clients offer to speak HTTP/2, as Java's do with every first request, or take their time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from faas import Context, inference_function
from faas.server.protocol import Protocol
from tests.server.answers import echo

pytestmark = pytest.mark.anyio

OFFER = (
    b"Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"
    b"Content-Type: application/json\r\n"
)
CHUNKED = b'Transfer-Encoding: chunked\r\n\r\n1\r\n"\r\n3;x=y\r\nabc\r\n1\r\n"\r\n0\r\n\r\n'


class Line:
    """One connection, by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            for _ in range(10):  # both ends are in this loop: so they come apart
                await asyncio.sleep(0)

    async def answer(self) -> tuple[int, bytes]:
        """Return status and body of the next answer."""
        async with asyncio.timeout(10):
            head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return int(head.split()[1]), await self.reader.readexactly(length)


@contextlib.asynccontextmanager
async def connected(served) -> AsyncIterator[Line]:
    reader, writer = await served.raw()
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ((b"POST / HTTP/1.1\r\n" + OFFER + b'Content-Length: 5\r\n\r\n"abc"',), b'"abc"'),
        ((b"POST / HTTP/1.1\r\n" + OFFER + b"Content-Length: 5\r\n\r\n", b'"abc"'), b'"abc"'),
        ((b"POST / HTTP/1.1\r\n" + OFFER + b'Content-Length: 5\r\n\r\n"a', b"b", b'c"'), b'"abc"'),
        ((b"POST / HTTP/1.1\r\n", OFFER + b'Content-Length: 5\r\n\r\n"abc"'), b'"abc"'),
        ((b"POST / HTTP/1.1\r\n" + OFFER + CHUNKED,), b'"abc"'),
        ((b"POST / HTTP/1.1\r\n" + OFFER + CHUNKED[:36], CHUNKED[36:50], CHUNKED[50:]), b'"abc"'),
    ],
)
async def test_a_body_behind_an_offer_is_read_and_the_connection_goes_on(serving, pieces, said):
    async with serving(echo) as served, connected(served) as line:
        for _ in range(2):
            await line.send(*pieces)
            assert await line.answer() == (200, said)
        await line.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n7")
        assert await line.answer() == (200, b"7")


async def test_a_request_with_an_offer_and_no_body_is_answered_as_any_is(serving):
    get = b"GET /livez HTTP/1.1\r\n" + OFFER + b"\r\n"
    async with serving(echo) as served, connected(served) as line:
        await line.send(get * 3 + b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n7" + get)
        for status in (200, 200, 200):
            assert (await line.answer())[0] == status
        assert await line.answer() == (200, b"7")
        assert (await line.answer())[0] == 200
        await line.send(b"POST / HTTP/1.1\r\n" + OFFER + b"Content-Length: 0\r\n\r\n")
        assert (await line.answer())[0] == 400  # echo wants a value


async def test_many_offers_in_one_piece(serving):
    post = b"POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\nHost: x\r\nContent-Length: 1\r\n\r\n7"
    async with serving(echo) as served, connected(served) as line:
        line.writer.write(post * 1500)
        for _ in range(1500):
            assert await line.answer() == (200, b"7")


async def test_what_is_no_body_behind_an_offer_is_refused(serving):
    async with serving(echo) as served, connected(served) as line:
        await line.send(b"POST / HTTP/1.1\r\n" + OFFER + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n")
        assert (await line.answer())[0] == 400
        assert await ends(line) == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 50,
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n7\r\n" + b"z" * 3_000_000,
    ],
)
async def test_what_is_no_http_is_refused_readably(serving, sent):
    async with serving(echo) as served, connected(served) as line:
        line.writer.write(sent)
        await line.writer.drain()
        status, body = await line.answer()
        assert status == json.loads(body)["status"] == 400
        assert await ends(line) == b""
        assert (await served.post(1)).status_code == 200
        assert await served.value("faas_inflight") == 0


GARBAGE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"


@pytest.mark.parametrize("num_before", [1, 3])
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (GARBAGE, 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 600_000, 431),
    ],
)
async def test_requests_before_what_is_no_http_are_answered_first(serving, num_before, sent, status):
    @inference_function(name="slow")
    async def slow(number: int) -> int:
        await asyncio.sleep(0.05)
        return number

    async with serving(slow) as served, connected(served) as line:
        line.writer.write(b"".join(POST % (1, b"%d" % number) for number in range(num_before)) + sent)
        for number in range(num_before):
            assert await line.answer() == (200, b"%d" % number)
        assert (await line.answer())[0] == status
        assert await ends(line) == b""
        assert await served.value("faas_inflight") == 0


async def test_what_follows_the_last_request_of_a_connection_is_ignored(serving):
    async with serving(echo) as served, connected(served) as line:
        line.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\n7" + GARBAGE)
        assert await line.answer() == (200, b"7")
        assert await ends(line) == b""


@pytest.mark.parametrize("offer", [b"", OFFER])
async def test_trailers_are_no_headers(serving, offer):
    @inference_function(name="headers")
    async def headers(number: int, context: Context) -> dict[str, str]:
        return dict(context.headers)

    head = b"POST / HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n" + offer + b"Transfer-Encoding: chunked\r\n\r\n"
    trailers = b"X-B: 2\r\nX-A: 3\r\nX-Forwarded-For: 6.6.6.6\r\nX-Request-Timeout-Ms: nothing\r\n"
    async with serving(headers) as served, connected(served) as line:
        for _ in range(2):
            line.writer.write(head + b"1\r\n7\r\n0\r\n" + trailers + b"\r\n")
            status, body = await line.answer()
            assert status == 200, body
            assert json.loads(body)["x-a"] == "1"
            assert not {"x-b", "x-forwarded-for", "x-request-timeout-ms"} & json.loads(body).keys()


async def test_a_head_that_begins_in_the_last_piece_of_a_large_body_is_not_taken_for_large(serving):
    body = b'"' + b"a" * 300_000 + b'"'
    async with serving(echo) as served, connected(served) as line:
        for _ in range(3):
            line.writer.write(POST % (len(body), body) + POST[:20])
            assert await line.answer() == (200, body)
            line.writer.write(POST[20:] % (1, b"7"))
            assert await line.answer() == (200, b"7")


async def test_a_body_behind_an_offer_keeps_to_the_limit(serving):
    too_long = b"%d" % (33 * 1024 * 1024)
    async with serving(echo) as served, connected(served) as line:
        await line.send(b"POST / HTTP/1.1\r\n" + OFFER + b"Content-Length: " + too_long + b"\r\n\r\n123")
        assert (await line.answer())[0] == 413


async def ends(line: Line) -> bytes:
    """Return what comes until the server closes."""
    async with asyncio.timeout(10):
        return await line.reader.read()


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"POST / HTTP/1.1\r\nHost:",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n",
        b"POST / HTTP/1.1\r\n" + OFFER + b"Content-Length: 5\r\n\r\n123",
    ],
)
async def test_a_request_that_does_not_come_on_ends_with_its_connection(serving, begun):
    async with serving(echo, keep_alive_s=0.2) as served, connected(served) as line:
        await line.send(begun)
        assert await ends(line) == b""
        assert (await served.post(1)).status_code == 200
        assert await served.value("faas_inflight") == 0


async def test_who_sends_slowly_and_who_waits_for_long_are_answered(serving):
    @inference_function
    async def slow(text: str) -> str:
        await asyncio.sleep(0.5)
        return text

    async with serving(slow, keep_alive_s=0.2) as served, connected(served) as line:
        post = b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"abc"'
        for begin in range(0, len(post), 12):
            await line.send(post[begin : begin + 12])
            await asyncio.sleep(0.1)
        assert await line.answer() == (200, b'"abc"')
        await line.send(post + post[:20])  # and begins another meanwhile
        assert await line.answer() == (200, b'"abc"')
        await line.send(post[20:])
        assert await line.answer() == (200, b'"abc"')
        assert await ends(line) == b""


@pytest.mark.parametrize("name", [b"X", b"X-%d"])
async def test_a_head_that_is_too_large_is_refused_readably(serving, name):
    head = b"".join(b"%b: %b\r\n" % (name % i if b"%" in name else name, b"a" * 100) for i in range(50_000))
    async with serving(echo) as served, connected(served) as line:
        line.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n")
        await line.writer.drain()
        assert (await line.answer())[0] == 431
        assert await ends(line) == b""
        assert (await served.post(1)).status_code == 200


async def test_a_head_that_never_ends_is_refused(serving):
    async with serving(echo) as served, connected(served) as line:
        line.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nX: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                line.writer.write(b"a" * 10_000)
                await line.writer.drain()
        assert (await line.answer())[0] == 431


async def test_large_bodies_count_for_no_head(serving):
    body = b'"' + b"a" * 300_000 + b'"'
    async with serving(echo) as served, connected(served) as line:
        for offer in (OFFER, b"Host: x\r\n"):
            await line.send(b"POST / HTTP/1.1\r\n" + offer + b"Content-Length: %d\r\n\r\n" % len(body), body)
            assert await line.answer() == (200, body)


async def test_a_stream_to_a_client_of_http_1_0_ends_with_its_connection(serving):
    @inference_function
    async def words(text: str) -> AsyncIterator[str]:
        for word in text.split():
            yield word
            await asyncio.sleep(0)

    async with serving(words) as served, connected(served) as line:
        await line.send(b'POST / HTTP/1.0\r\nAccept: text/event-stream\r\nContent-Length: 8\r\n\r\n"a b  c"')
        head, _, body = (await ends(line)).partition(b"\r\n\r\n")
        assert b"200 OK" in head
        assert b"transfer-encoding" not in head.lower()
        assert b"connection: close" in head.lower()
        assert body == b'data: "a"\n\ndata: "b"\n\ndata: "c"\n\n'


def num_held() -> int:
    gc.collect()
    return sum(issubclass(type(one), Protocol) for one in gc.get_objects())


async def test_a_connection_that_is_reset_is_held_by_nobody(serving):
    async with serving(echo) as served:
        num_before = num_held()
        for sent in (b"", b"POST / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n7"):
            async with connected(served) as line:
                await line.send(sent)
                if sent.endswith(b"7"):
                    assert await line.answer() == (200, b"7")
                sock = line.writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                line.writer.transport.abort()
        async with asyncio.timeout(20):
            while num_held() > num_before:
                await asyncio.sleep(0.01)
