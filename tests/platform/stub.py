"""What the activator's tests need: an instance that does as it is told, a client that sends raw bytes, a platform."""

import asyncio
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from faas.platform.activator import Activator
from faas.platform.breaker import Capacity
from faas.platform.clients import ActivatorSettings
from faas.platform.endpoint import Endpoint
from faas.platform.front import FrontConnection
from faas.platform.routing import Target
from faas.platform.wire import LocalAnswer, problem

Handle = Callable[["Call"], Awaitable[None]]


@dataclass
class Message:
    """A request as an instance got it, or an answer as a client got it; the body without its framing."""

    first_line: bytes
    headers: dict[bytes, bytes]
    body: bytes = b""
    raw_head: bytes = b""

    @property
    def status(self) -> int:
        return int(self.first_line.split()[1])

    @property
    def path(self) -> bytes:
        return self.first_line.split()[1]

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def read_head(reader: asyncio.StreamReader) -> Message:
    raw = await reader.readuntil(b"\r\n\r\n")
    first_line, *lines = raw[:-4].split(b"\r\n")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        key = name.strip().lower()
        assert key not in headers, f"{key!r} twice"
        headers[key] = value.strip()
    return Message(first_line, headers, raw_head=raw)


async def read_body(reader: asyncio.StreamReader, headers: dict[bytes, bytes]) -> bytes:
    if b"content-length" in headers:
        return await reader.readexactly(int(headers[b"content-length"]))
    if headers.get(b"transfer-encoding") == b"chunked":
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += await reader.readexactly(size)
            assert await reader.readexactly(2) == b"\r\n"
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return body
    return b""


@dataclass
class Call:
    """A request at a stub instance whose head has been read."""

    request: Message
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    instance: "StubInstance"

    async def body(self) -> bytes:
        self.request.body = await read_body(self.reader, self.request.headers)
        return self.request.body

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self, body: bytes = b"", status: int = 200, *headers: bytes) -> None:
        head = b"\r\n".join((b"HTTP/1.1 %d Fine" % status, b"content-length: %d" % len(body), *headers, b"", b""))
        await self.send(head + body)

    def reset(self) -> None:
        self.writer.transport.abort()


async def echo(call: Call) -> None:
    """Answer with the name of the instance and the body."""
    body = await call.body()
    await call.reply(call.instance.name + b":" + body)


async def hang(call: Call) -> None:
    """Read until the connection ends."""
    await call.reader.read()
    raise ConnectionError


class StubInstance:
    """A server on a Unix socket. `handle` is called with each request; `calls` keeps them."""

    def __init__(self, folder: Path, handle: Handle = echo, name: bytes = b"a") -> None:
        self.address = str(folder / f"{name.decode()}.sock")
        self.name = name
        self.handle = handle
        self.endpoint = Endpoint(self.address)
        self.calls: list[Message] = []
        self.num_connections = 0
        self.num_accepted = 0
        self.disconnected = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "StubInstance":
        self._server = await asyncio.start_unix_server(self._serve, self.address, limit=2**20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks)

    def kill(self) -> None:
        """Close everything at once, as the kernel does for a process that is killed."""
        if self._server is not None:
            self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connections that there are."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        self.num_accepted += 1
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                request = await read_head(reader)
                self.calls.append(request)
                await self.handle(Call(request, reader, writer, self))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.disconnected.set()
        except asyncio.CancelledError:
            pass  # the end of the test
        finally:
            self._tasks.discard(task)
            self.num_connections -= 1
            self._writers.discard(writer)
            writer.close()


@dataclass
class OneFunction:
    """A router with one function at `/f/echo/`, and the rest unknown."""

    capacity: Capacity
    seen: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)

    def route(self, host: bytes, path: bytes, method: bytes, tag: bytes = b"") -> Target | LocalAnswer:
        self.seen.append((host, path, method))
        if match := re.fullmatch(rb"/f/echo(/.*)?", path):
            return Target(self.capacity, match[1] or b"/")
        return problem(404, f"no function at {path.decode('latin-1')}")


class Client:
    """A connection that sends what it is told and reads whole answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def post(self, body: bytes = b"hello", path: bytes = b"/f/echo/", *headers: bytes) -> None:
        lines = (b"POST %b HTTP/1.1" % path, b"Host: here", b"Content-Length: %d" % len(body), *headers, b"", b"")
        await self.send(b"\r\n".join(lines) + body)

    async def head(self) -> Message:
        return await read_head(self.reader)

    async def answer(self) -> Message:
        message = await self.head()
        message.body = await read_body(self.reader, message.headers)
        return message

    async def call(self, body: bytes = b"hello", path: bytes = b"/f/echo/", *headers: bytes) -> Message:
        await self.post(body, path, *headers)
        return await self.answer()

    async def at_end(self) -> bool:
        """Wait for the other side to close; whether it did so in order and with nothing left to read."""
        return await self.reader.read() == b""

    def reset(self) -> None:
        """Leave at once, with what is not sent unsent."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.leave()

    def leave(self) -> None:
        self.writer.transport.abort()


@dataclass
class Platform:
    activator: Activator
    capacity: Capacity
    router: OneFunction
    port: int
    clients: list[Client] = field(default_factory=list)

    @property
    def fronts(self) -> list[FrontConnection]:
        """The activator's ends of the clients' connections."""
        return [front for front in self.activator.clients.connections if isinstance(front, FrontConnection)]

    async def client(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, limit=2**20))
        self.clients.append(client)
        return client


@asynccontextmanager
async def platform(
    *instances: StubInstance, settings: ActivatorSettings | None = None, **capacity: Any
) -> AsyncIterator[Platform]:
    """An activator on a free port, with `instances` ready."""
    made = Capacity(**capacity)
    for instance in instances:
        made.add(instance.endpoint)
    router = OneFunction(made)
    activator = Activator(router, settings)
    running = Platform(activator, made, router, await activator.listen("127.0.0.1", 0))
    try:
        yield running
    finally:
        for client in running.clients:
            client.leave()
        await activator.drain(0.5)
        assert made.concurrency.current == 0, "a request is not accounted for"
        assert all(endpoint.in_flight == 0 for endpoint in made.endpoints), "an instance is still taken"
        assert made.num_held == 0, "a request still waits"


async def until(condition: Callable[[], bool]) -> None:
    """Give way until `condition` holds, for what tells nobody when it happens."""
    while not condition():
        await asyncio.sleep(0)
