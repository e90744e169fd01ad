"""The activator in front of the server that instances run."""

import asyncio
import base64
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from faas.platform.endpoint import Endpoint
from tests.platform.stub import Platform, platform, read_body, until

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class App:
    """Echoes a body, refuses a large one, streams events until its client leaves, echoes messages of a WebSocket."""

    def __init__(self) -> None:
        self.num_calls = 0
        self.left = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._echo_messages(receive, send)
            return
        self.num_calls += 1
        if scope["path"] == "/events":
            await self._stream(receive, send)
            return
        body = b""
        if int(dict(scope["headers"]).get(b"content-length", b"0")) > 1_000_000:
            await self._reply(send, 413, b"too large")
            return
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        await self._reply(send, 200, body)

    async def _reply(self, send: Send, status: int, body: bytes) -> None:
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": status, "headers": [length]})
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, receive: Receive, send: Send) -> None:
        event = (b"content-type", b"text/event-stream")
        await send({"type": "http.response.start", "status": 200, "headers": [event]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()

    async def _echo_messages(self, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            if message["type"] == "websocket.connect":
                await send({"type": "websocket.accept"})
            else:
                await send({"type": "websocket.send", "text": message["text"].upper()})
        self.left.set()


@asynccontextmanager
async def serving(folder: Path, **capacity: Any) -> AsyncIterator[tuple[Platform, App, uvicorn.Server]]:
    app = App()
    config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="websockets-sansio", timeout_keep_alive=75)
    server = uvicorn.Server(config)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(str(folder / "uvicorn.sock"))
        task = asyncio.ensure_future(server.serve(sockets=[sock]))
        await until(lambda: server.started)
        try:
            async with platform(**capacity) as running:
                running.capacity.add(Endpoint(sock.getsockname()))
                yield running, app, server
        finally:
            server.should_exit = True
            await task


async def test_bodies_of_every_size_and_form(tmp_path: Path) -> None:
    async with serving(tmp_path) as (running, app, server):
        client = await running.client()
        for size in (0, 1, 65535, 65536, 65537, 1_000_000):
            body = os.urandom(size)
            assert (await client.call(body)).body == body
            await client.send(b"PUT /f/echo/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for at in range(0, size, 10_000):
                piece = body[at : at + 10_000]
                await client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await client.send(b"0\r\n\r\n")
            assert (await client.answer()).body == body
        assert len(server.server_state.connections) == 1
        assert app.num_calls == 12


async def test_the_application_hears_that_its_client_has_left(tmp_path: Path) -> None:
    async with serving(tmp_path) as (running, app, _):
        client = await running.client()
        await client.send(b"GET /f/echo/events HTTP/1.1\r\nHost: a\r\n\r\n")
        await client.head()
        assert await client.reader.readuntil(b"\n\n") == b"9\r\ndata: 1\n\n"
        client.leave()
        await app.left.wait()


async def test_ht_10_a_refusal_instead_of_100_continue(tmp_path: Path) -> None:
    async with serving(tmp_path) as (running, _, _server):
        client = await running.client()
        ask = b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: "
        await client.send(ask + b"30000000\r\n\r\n")
        assert (await client.answer()).status == 413
        client = await running.client()
        await client.send(ask + b"2\r\n\r\n")
        assert (await client.head()).status == 100
        await client.send(b"hi")
        assert (await client.answer()).body == b"hi"


async def test_ht_10_a_30_mb_upload_over_the_limit_reads_its_413(tmp_path: Path) -> None:
    async with serving(tmp_path) as (running, _, _server):
        client = await running.client()
        await client.post(b"x" * 30_000_000)
        assert (await client.answer()).status == 413
        assert (await (await running.client()).call(b"hi")).body == b"hi"


async def test_an_http10_stream_ends_with_its_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as (running, _, _server):
        client = await running.client()
        await client.send(b"POST /f/echo/ HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi")
        answer = await client.head()
        assert await read_body(client.reader, answer.headers) == b"hi"
        assert await client.at_end()


async def test_a_websocket_passes(tmp_path: Path) -> None:
    async with serving(tmp_path) as (running, app, _):
        client = await running.client()
        key = base64.b64encode(os.urandom(16))
        await client.send(
            b"GET /f/echo/socket HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n\r\n"
        )
        assert (await client.head()).status == 101
        mask = b"\x01\x02\x03\x04"
        text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(b"hello"))
        await client.send(b"\x81\x85" + mask + text)
        assert await client.reader.readexactly(7) == b"\x81\x05HELLO"
        client.leave()
        await app.left.wait()


async def test_an_instance_that_shuts_down_with_idle_connections_fails_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path) as (running, _, server):
        client = await running.client()
        assert (await client.call(b"1")).body == b"1"
        (endpoint,) = running.capacity.endpoints
        server.should_exit = True
        await until(lambda: not endpoint.connections)
        await client.post(b"2")
        await until(lambda: running.capacity.num_held == 1)
        assert running.capacity.counts.failed == 0
