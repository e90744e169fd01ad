"""Much goes through, little is held."""

import asyncio
import resource
from pathlib import Path

import pytest

from tests.platform.stub import Call, Client, StubInstance, platform

MIB = 2**20
NUM_MIB = 100
MOST_MORE_BYTES = 24 * MIB
PIECE = bytes(range(256)) * 256  # 64 KiB
NUM_PIECES = NUM_MIB * MIB // len(PIECE)
CHUNK = b"%x\r\n%b\r\n" % (len(PIECE), PIECE)


async def echo_pieces(call: Call) -> None:
    """Send each piece back as it comes, in the request's own framing."""
    framing = call.request.headers.get(b"content-length")
    line = b"content-length: " + framing if framing is not None else b"transfer-encoding: chunked"
    await call.send(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n")
    left = NUM_PIECES * len(PIECE) if framing is not None else NUM_PIECES * len(CHUNK) + 5
    while left:
        data = await call.reader.read(min(left, len(PIECE)))
        left -= len(data)
        await call.send(data)


async def send(client: Client, piece: bytes, end: bytes) -> None:
    for _ in range(NUM_PIECES):
        await client.send(piece)
    await client.send(end)


async def receive(client: Client, piece: bytes, end: bytes) -> None:
    for number in range(NUM_PIECES):
        assert await client.reader.readexactly(len(piece)) == piece, number
    assert await client.reader.readexactly(len(end)) == end


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framing", "piece", "end"),
    [
        (b"Content-Length: %d" % (NUM_PIECES * len(PIECE)), PIECE, b""),
        (b"Transfer-Encoding: chunked", CHUNK, b"0\r\n\r\n"),
    ],
    ids=["sized", "chunked"],
)
async def test_100_mib_up_and_down_at_once_take_no_memory(
    tmp_path: Path, framing: bytes, piece: bytes, end: bytes
) -> None:
    async with StubInstance(tmp_path, echo_pieces) as instance, platform(instance) as running:
        client = await running.client()
        before_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\n" + framing + b"\r\n\r\n")
        sending = asyncio.ensure_future(send(client, piece, end))
        assert (await client.head()).status == 200
        await receive(client, piece, end)
        await sending
        more_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before_bytes
        assert more_bytes < MOST_MORE_BYTES, f"{more_bytes / MIB:.0f} MiB more at the most"
        (connection,) = instance.endpoint.idle
        assert connection.is_congested is False, "both connections are kept"
