"""An answer that is at hand goes out in one write; all else as uvicorn has it."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from faas import inference_function
from faas.server.listener import Listener

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
LENGTH = (b"content-length", b"4")


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def resume_reading(self) -> None: ...

    def pause_reading(self) -> None: ...


def start(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes, **more: Any) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, **more}


async def answered(
    *messages: dict[str, Any], requests: tuple[bytes, ...] = (GET,), rest: bytes = b"", closing: bool = False
) -> Transport:
    """What an application has written that sends `messages` for each of the requests. `rest` comes a moment later."""
    transport: Any = Transport()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        for message in messages:
            await send(message)

    listener = Listener(app, 75.0)
    if closing:
        listener.close_after_answers()
    protocol = listener._protocol()
    protocol.connection_made(transport)
    for request in requests:
        protocol.data_received(request)
        if rest:
            await asyncio.sleep(0.01)
            protocol.data_received(rest)
        await listener.quiet(20.0)
    was_closed = transport.closed
    protocol.connection_lost(None)
    transport.closed = was_closed
    return transport  # type: ignore[no-any-return]


pytestmark = pytest.mark.anyio


async def test_head_and_body_are_one_write_for_each_answer() -> None:
    sent = await answered(start(LENGTH, (b"x-a", b"b\tc")), body(b"body"), requests=(GET, GET))
    assert len(sent.written) == 2
    for one in sent.written:
        head, _, rest = one.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        assert (first, rest) == (b"HTTP/1.1 200 OK", b"body")
        assert lines[0].startswith(b"date: ")
        assert lines[1:] == [b"content-length: 4", b"x-a: b\tc"]
    assert not sent.closed


async def test_the_head_of_a_stream_goes_at_once() -> None:
    sent = await answered(start(), body(b"x", more_body=True), body(b""))
    assert sent.written[0].endswith(b"transfer-encoding: chunked\r\n\r\n")
    assert sent.written[1:] == [b"1\r\nx\r\n", b"0\r\n\r\n"]


async def test_a_body_in_parts_goes_as_it_comes() -> None:
    sent = await answered(start(LENGTH), body(b"bo", more_body=True), body(b"dy"))
    assert sent.written[1:] == [b"bo", b"dy"]


async def test_a_large_body_is_not_copied() -> None:
    data = b"x" * 100_000
    sent = await answered(start((b"content-length", b"100000")), body(data))
    assert len(sent.written) == 2
    assert sent.written[1] is data


async def test_the_answer_to_a_head_request_has_no_body() -> None:
    sent = await answered(start(LENGTH), body(b"body"), requests=(GET.replace(b"GET", b"HEAD"),))
    assert b"".join(sent.written).endswith(b"content-length: 4\r\n\r\n")


@pytest.mark.parametrize("closing", [True, False])
async def test_a_connection_that_is_to_be_closed_is(closing: bool) -> None:
    told = () if closing else ((b"connection", b"close"),)
    sent = await answered(start(LENGTH, *told), body(b"body"), closing=closing)
    assert b"".join(sent.written).count(b"connection: close\r\n") == 1
    assert sent.closed
    old = await answered(start(LENGTH), body(b"body"), requests=(b"GET / HTTP/1.0\r\n\r\n",))
    assert b"".join(old.written).endswith(b"connection: close\r\n\r\nbody")
    assert old.closed


@pytest.fixture
def errors(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.LogCaptureFixture]:
    """What uvicorn logs, also where somebody has set its logging up in this process: not passed on, or silenced."""
    logger = logging.getLogger("uvicorn.error")
    caplog.set_level(logging.ERROR, logger="uvicorn.error")
    monkeypatch.setattr(logger, "disabled", False)
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


@pytest.mark.parametrize(
    "header", [(b"x-a", b"b\r\nx-c: d"), (b"x-a", b"b\x00"), (b"x-a\r\nx-c", b"d"), (b"x a", b"b"), (b"x-a:", b"b")]
)
async def test_no_header_can_smuggle_another(header: tuple[bytes, bytes], errors: pytest.LogCaptureFixture) -> None:
    sent = await answered(start(LENGTH, header), body(b"body"))
    assert not any(b"x-c" in one or b"x-a" in one for one in sent.written)
    assert "Invalid HTTP header" in errors.text


@pytest.mark.parametrize("data", [b"bod", b"bodys"])
async def test_a_body_of_another_length_is_an_error(data: bytes, errors: pytest.LogCaptureFixture) -> None:
    await answered(start(LENGTH), body(data))
    assert "than Content-Length" in errors.text


async def test_what_is_no_body_is_an_error(errors: pytest.LogCaptureFixture) -> None:
    await answered(start((b"content-length", b"0")), {"type": "http.response.trailers"})
    assert "Expected ASGI message 'http.response.body'" in errors.text


async def test_a_head_without_a_body_is_answered_for(errors: pytest.LogCaptureFixture) -> None:
    sent = await answered(start(LENGTH))
    assert b"".join(sent.written).startswith(b"HTTP/1.1 500 ")
    assert errors.records


async def test_an_interim_answer_goes_at_once() -> None:
    asked = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n"
    sent = await answered(start(LENGTH), body(b"body"), requests=(asked,), rest=b"x")
    assert sent.written[0] == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert sent.written[1].endswith(b"\r\n\r\nbody")


@inference_function(name="double")
async def double(number: int) -> int:
    return 2 * number


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
