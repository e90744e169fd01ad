"""Where the activator listens, and what it says itself."""

import asyncio
import socket
from functools import partial
from pathlib import Path

import pytest

from faas.platform.activator import Activator
from faas.platform.hangup import HangupWatch
from faas.platform.routing import Target
from faas.platform.wire import LocalAnswer, encode_answer, problem
from tests.platform.stub import Client, until


class Greeting:
    def route(self, host: bytes, path: bytes, method: bytes, tag: bytes = b"") -> Target | LocalAnswer:
        return LocalAnswer(200, b"hello", b"text/plain", ((b"allow", b"GET"),))


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
async def test_it_listens_on_a_socket_that_it_is_given(tmp_path: Path, family: socket.AddressFamily) -> None:
    activator = Activator(Greeting())
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.bind(str(tmp_path / "front.sock") if family == socket.AF_UNIX else ("127.0.0.1", 0))
        await activator.listen_on(sock)
        with socket.socket(family, socket.SOCK_STREAM) as mine:
            mine.setblocking(False)
            await asyncio.get_running_loop().sock_connect(mine, sock.getsockname())
            client = Client(*await asyncio.open_connection(sock=mine))
            answer = await client.call(b"", b"/")
            assert (answer.status, answer.body, answer.headers[b"allow"]) == (200, b"hello", b"GET")
            client.leave()
            await activator.drain(5)


async def test_a_taken_port_is_an_error() -> None:
    activator = Activator(Greeting())
    port = await activator.listen("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        await activator.listen("127.0.0.1", port)
    await activator.drain(0.1)


async def test_a_client_that_connects_while_it_drains_is_not_kept() -> None:
    activator = Activator(Greeting())
    port = await activator.listen("127.0.0.1", 0)
    activator.clients.is_draining = True
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b""
    writer.close()
    await activator.drain(1)


def test_an_answer_as_bytes() -> None:
    answer = LocalAnswer(200, b"abc", b"text/plain", ((b"x", b"y"),))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\nx: y\r\nx-request-id: i\r\n"
    assert encode_answer(answer, b"i", is_head=False, close=False) == head + b"\r\nabc"
    assert encode_answer(answer, b"i", is_head=True, close=True) == head + b"connection: close\r\n\r\n"


def test_a_problem_as_bytes() -> None:
    encoded = encode_answer(problem(503, "starting", retry_after_s=3), b"i", is_head=False, close=False)
    assert encoded.startswith(b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n")
    assert b"\r\nretry-after: 3\r\n" in encoded
    assert b'"detail":"starting"' in encoded


async def test_a_watched_peer_that_closes_is_told_of_once_and_a_forgotten_one_not() -> None:
    watch = HangupWatch(asyncio.get_running_loop())
    told: list[str] = []
    pairs = [socket.socketpair() for _ in range(3)]
    for name, (mine, _) in zip("abc", pairs, strict=True):
        watch.watch(mine.fileno(), partial(told.append, name))
    watch.watch(pairs[0][0].fileno(), lambda: told.append("twice"))
    watch.unwatch(pairs[1][0].fileno())
    watch.unwatch(pairs[1][0].fileno())
    for _, other in pairs[:2]:
        other.close()
    pairs[2][1].send(b"still here")
    await until(lambda: told == ["a"])
    for _ in range(5):
        await asyncio.sleep(0)
    assert told == ["a"]
    watch.close()
    watch.close()
    for mine, other in pairs:
        mine.close()
        other.close()
