"""The head of an answer goes out with the beginning of its body."""

import asyncio
import socket
from typing import Any

import pytest

from faas import inference_function
from faas.server.one_write import OneWrite

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Transport:
    def __init__(self) -> None:
        self.done: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def close(self) -> None:
        self.done.append("closed")

    def get_extra_info(self, name: str) -> str:
        return f"the {name}"


def made() -> tuple[Any, list[bytes | str]]:
    transport: Any = Transport()
    return OneWrite(transport), transport.done


def test_head_and_body_are_one_write_for_each_answer() -> None:
    writes, done = made()
    for _ in range(2):
        writes.write(HEAD)
        writes.write(b"body")
        writes.answered()
    assert done == [HEAD + b"body"] * 2


def test_the_head_of_a_stream_goes_at_once() -> None:
    writes, done = made()
    writes.write(STREAM)
    writes.write(b"1\r\nx\r\n")
    assert done == [STREAM, b"1\r\nx\r\n"]


def test_a_head_without_a_body_goes_when_the_answer_is_complete() -> None:
    writes, done = made()
    writes.write(HEAD)
    assert done == []
    writes.answered()
    assert done == [HEAD]


def test_what_is_kept_goes_before_the_connection_is_closed() -> None:
    writes, done = made()
    writes.write(HEAD)
    writes.close()
    assert done == [HEAD, "closed"]


def test_a_large_body_is_not_copied() -> None:
    writes, done = made()
    body = b"x" * 100_000
    writes.write(HEAD)
    writes.write(body)
    assert done == [HEAD, body]
    assert done[1] is body


def test_a_body_that_looks_like_a_head_is_not_kept() -> None:
    writes, done = made()
    writes.write(HEAD)
    writes.write(b"")
    writes.write(HEAD)
    assert done == [HEAD, HEAD]


def test_interim_answers_go_at_once() -> None:
    writes, done = made()
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    writes.write(interim)
    writes.write(HEAD)
    writes.write(b"body")
    assert done == [interim, HEAD + b"body"]


def test_the_rest_is_the_transports_own() -> None:
    writes, _ = made()
    assert writes.get_extra_info("peername") == "the peername"
    with pytest.raises(AttributeError):
        _ = writes.nothing


@inference_function(name="double")
async def double(number: int) -> int:
    return 2 * number


@pytest.mark.anyio
async def test_an_answer_is_read_whole_at_once(serving: Any) -> None:
    async with serving(double) as served:
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", served.port)) as sock:
            sock.setblocking(False)
            for _ in range(2):
                head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
                await loop.sock_sendall(sock, head + b"21")
                answer = await loop.sock_recv(sock, 65536)
                assert answer.startswith(b"HTTP/1.1 200")
                assert answer.endswith(b"\r\n\r\n42")
