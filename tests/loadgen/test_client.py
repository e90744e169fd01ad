import asyncio
import socket
import tracemalloc

import pytest
from aiohttp import web

from loadgen import Outcome, Workload
from loadgen.client import Client, server_timing
from loadgen.sample import Sample
from tests.loadgen.stub import Handler, ok, serving, serving_bytes


async def send(url: str, body: bytes | None = b"x", timeout_s: float = 30.0) -> Sample:
    async with Client(Workload(url=url), timeout_s) as client:
        return await client.send(body)


async def send_to(handler: Handler, timeout_s: float = 30.0) -> Sample:
    async with serving(handler) as url:
        return await send(url, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.OK),
        (204, Outcome.OK),
        (307, Outcome.CLIENT_ERROR),
        (404, Outcome.CLIENT_ERROR),
        (422, Outcome.CLIENT_ERROR),
        (429, Outcome.OVERLOADED),
        (503, Outcome.OVERLOADED),
        (500, Outcome.SERVER_ERROR),
        (504, Outcome.SERVER_ERROR),
    ],
)
def test_the_status_decides_the_outcome(status: int, outcome: Outcome) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    sample = asyncio.run(send_to(answer))
    assert (sample.outcome, sample.status, sample.error) == (outcome, status, None)


def test_a_long_header_of_an_answer_is_no_failure() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(headers={"Content-Security-Policy": "a" * 20_000})

    assert asyncio.run(send_to(answer)).outcome == Outcome.OK


def test_a_refused_connection_is_a_connect_error() -> None:
    with socket.socket() as bound_but_not_listening:
        bound_but_not_listening.bind(("127.0.0.1", 0))
        port = bound_but_not_listening.getsockname()[1]
        sample = asyncio.run(send(f"http://127.0.0.1:{port}/"))
    assert (sample.outcome, sample.status) == (Outcome.CONNECT_ERROR, None)
    assert str(port) in (sample.error or "")


def test_no_answer_in_time_is_a_timeout() -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    sample = asyncio.run(send_to(never, timeout_s=0.2))
    assert (sample.outcome, sample.status) == (Outcome.TIMEOUT, None)
    assert sample.done_at - sample.sent_at >= 0.19
    assert sample.error


def test_half_an_answer_in_time_is_a_timeout() -> None:
    async def halt(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        await asyncio.Event().wait()
        raise AssertionError

    assert asyncio.run(send_to(halt, timeout_s=0.2)).outcome is Outcome.TIMEOUT


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", b"HTTP/1.1 200 OK\r\nContent-Le", b"SSH-2.0-x\r\n\r\n"],
    ids=["nothing", "half a body", "half a head", "another protocol"],
)
def test_a_connection_that_ends_or_speaks_something_else_is_broken(answer: bytes) -> None:
    async def exchange() -> Sample:
        async with serving_bytes(answer) as url:
            return await send(url)

    sample = asyncio.run(exchange())
    assert sample.outcome is Outcome.BROKEN
    assert sample.error


def test_what_the_server_says_of_its_work_is_read() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(
            body=b"12345",
            headers={
                "X-Cold-Start": "1",
                "X-Batch-Size": "16",
                "Server-Timing": "queue;dur=1.5, exec;dur=20",
            },
        )

    sample = asyncio.run(send_to(answer))
    assert (sample.cold, sample.batch_size, sample.num_bytes) == (True, 16, 5)
    assert sample.phases_ms == (("queue", 1.5), ("exec", 20.0))


@pytest.mark.parametrize("has_length", [True, False])
def test_a_large_answer_is_read_and_not_held(has_length: bool) -> None:
    async def large(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if has_length:
            response.content_length = 50_000_000
        await response.prepare(request)
        for _ in range(50):
            await response.write(b"x" * 1_000_000)
        return response

    async def exchange() -> tuple[Sample, int]:
        async with serving(large) as url:
            await send(url)
            tracemalloc.start()
            try:
                return await send(url), tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    sample, most_bytes = asyncio.run(exchange())
    assert (sample.outcome, sample.num_bytes) == (Outcome.OK, 50_000_000)
    assert most_bytes < 20_000_000


@pytest.mark.parametrize("size", ["0", "-1", "many", "²", "99999999", ""])
def test_what_is_no_batch_size_is_not_believed(size: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(headers={"X-Batch-Size": size, "X-Cold-Start": "yes"})

    sample = asyncio.run(send_to(answer))
    assert (sample.outcome, sample.batch_size, sample.cold) == (Outcome.OK, None, None)


def test_requests_carry_the_workload_and_share_a_connection() -> None:
    seen = []

    async def answer(request: web.Request) -> web.Response:
        headers = request.headers
        seen.append((request.method, request.path, headers["X-A"], headers.get("Cookie"), await request.read()))
        ports.add(request.transport.get_extra_info("peername") if request.transport else None)
        return web.Response(headers={"Set-Cookie": f"n={len(seen)}"})

    async def exchange() -> None:
        async with serving(answer) as url:
            workload = Workload(url=f"{url}f/Embed?q=1", method="PUT", headers={"X-A": "b"})
            async with Client(workload, 30.0) as client:
                await client.send(b"one")
                await client.send(None)

    ports: set[object] = set()
    asyncio.run(exchange())
    assert seen == [("PUT", "/f/Embed", "b", None, b"one"), ("PUT", "/f/Embed", "b", None, b"")]
    assert len(ports) == 1


def test_a_request_is_timed_from_when_it_was_due() -> None:
    async def exchange() -> Sample:
        async with serving(ok) as url, Client(Workload(url=url), 30.0) as client:
            return await client.send(b"x", planned_at=1.0)

    sample = asyncio.run(exchange())
    assert sample.planned_at == 1.0
    assert sample.planned_at < sample.sent_at < sample.done_at


@pytest.mark.parametrize(
    ("line", "phases"),
    [
        ("queue;dur=1.5, batch;dur=0", (("queue", 1.5), ("batch", 0.0))),
        ('cache;desc="hit";dur=2.5', (("cache", 2.5),)),
        ('db ; DUR = "3"', (("db", 3.0),)),
        ("a;dur=1;dur=2", (("a", 1.0),)),
        ("miss, x;desc=y, ;;, a;dur=, b;dur=nan, c;dur=-1, d;dur=inf, e;dur=ms", ()),
        ("", ()),
    ],
)
def test_server_timing(line: str, phases: tuple[tuple[str, float], ...]) -> None:
    assert server_timing([line]) == phases


def test_server_timing_over_several_lines() -> None:
    assert server_timing(["a;dur=1", "b;dur=2"]) == (("a", 1.0), ("b", 2.0))
