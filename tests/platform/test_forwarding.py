"""The activator over real sockets: what passes between a client and an instance, and how."""

import asyncio
import gzip
import hashlib
from pathlib import Path

import pytest

from tests.platform.stub import Call, StubInstance, hang, platform, read_body, until

MIB = 1024 * 1024


async def test_a_request_reaches_an_instance_and_its_answer_the_client(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        answer = await client.call(b"hello", b"/f/echo/rest?x=1/?")
        assert (answer.status, answer.body) == (200, b"a:hello")
        request = instance.calls[0]
        assert request.first_line == b"POST /rest?x=1/? HTTP/1.1"
        assert request.headers[b"host"] == b"here"
        assert request.headers[b"x-forwarded-for"] == b"127.0.0.1"
        assert request.headers[b"x-request-id"]
        assert running.router.seen == [(b"here", b"/f/echo/rest", b"POST")]
        assert (running.activator.clients.counts.requests, running.activator.clients.counts.local) == (1, 0)


async def test_feedback_reaches_the_instance_that_answered(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    async with StubInstance(tmp_path) as one, StubInstance(tmp_path / "b") as other, platform(one, other) as running:
        one.endpoint.id, other.endpoint.id = b"echo-1ab", b"echo-2cd"
        client = await running.client()
        for id in (b"echo-2cd", b"echo-1ab", b"Echo-2CD", b"echo-2cd"):
            await client.call(b"said", b"/f/echo/feedback", b"X-Instance-Id: " + id)
        assert [call.first_line for call in other.calls] == [b"POST /feedback HTTP/1.1"] * 3
        assert len(one.calls) == 1
        assert (one.endpoint.in_flight, other.endpoint.in_flight) == (0, 0)
        for path in (b"/f/echo/feedback", b"/f/echo/"):  # the one has gone, or it is no feedback: to any
            for id in (b"echo-3ef", b"echo-1ab", b"echo-1ab"):
                assert (await client.call(b"said", path, b"X-Instance-Id: " + id)).status == 200
        assert running.activator.clients.counts.requests == 10
        assert len(one.calls) + len(other.calls) == 10


async def test_both_sides_keep_their_connection(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        for number in range(20):
            assert (await client.call(b"%d" % number)).body == b"a:%d" % number
        assert instance.num_accepted == 1
        assert running.activator.clients.counts.accepted == 1


async def test_an_unknown_function_is_a_problem_with_the_requests_id(tmp_path: Path) -> None:
    async with platform() as running:
        client = await running.client()
        answer = await client.call(b"", b"/f/nothing/", b"X-Request-Id: mine")
        assert answer.status == 404
        assert answer.headers[b"content-type"] == b"application/problem+json"
        assert answer.headers[b"x-request-id"] == b"mine"
        assert answer.json()["detail"] == "no function at /f/nothing/"
        assert answer.json()["request_id"] == "mine"
        await client.send(b"HEAD /f/nothing/ HTTP/1.1\r\nHost: a\r\n\r\n")
        head = await client.head()
        assert (head.status, head.headers[b"content-type"]) == (404, b"application/problem+json")
        assert int(head.headers[b"content-length"]) > 0
        assert (await client.call(b"", b"/f/nothing/")).status == 404, "the head had no body"
        assert running.activator.clients.counts.local == 3


# --- both ways, in pieces


async def echo_pieces(call: Call) -> None:
    """Answer each piece of the body as it comes."""
    await call.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while size := int(await call.reader.readline(), 16):
        data = await call.reader.readexactly(size + 2)
        await call.send(b"%x\r\n" % size + data)
    await call.reader.readline()
    await call.send(b"0\r\n\r\n")


async def test_body_and_answer_stream_at_the_same_time(tmp_path: Path) -> None:
    async with StubInstance(tmp_path, echo_pieces) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        head = await client.head()
        assert head.headers[b"transfer-encoding"] == b"chunked"
        assert head.headers[b"connection"] == b"close", "the answer began before the request had ended"
        for number in range(5):
            piece = b"piece %d" % number
            await client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            assert int(await client.reader.readline(), 16) == len(piece)
            assert await client.reader.readexactly(len(piece) + 2) == piece + b"\r\n"
        await client.send(b"0\r\n\r\n")
        assert await client.reader.readexactly(5) == b"0\r\n\r\n"
        assert await client.at_end()


async def test_server_sent_events_pass_one_by_one(tmp_path: Path) -> None:
    seen = asyncio.Semaphore(0)

    async def events(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for number in range(3):
            await call.send(b"9\r\ndata: %d\n\n\r\n" % number)
            await seen.acquire()
        await call.send(b"0\r\n\r\n")

    async with StubInstance(tmp_path, events) as instance, platform(instance) as running:
        client = await running.client()
        await client.post(b"")
        await client.head()
        for number in range(3):
            assert await client.reader.readexactly(14) == b"9\r\ndata: %d\n\n\r\n" % number
            seen.release()
        assert await client.reader.readexactly(5) == b"0\r\n\r\n"
        for _ in range(3):
            seen.release()
        assert (await client.call(b"")).status == 200, "the connection stays"


async def test_a_slow_instance_slows_its_client_and_nothing_is_held(tmp_path: Path) -> None:
    go, digest = asyncio.Event(), hashlib.sha256()

    async def slow(call: Call) -> None:
        await go.wait()
        left = int(call.request.headers[b"content-length"])
        while left:
            data = await call.reader.read(min(left, MIB))
            digest.update(data)
            left -= len(data)
        await call.reply(b"done")

    body = bytes(range(256)) * (128 * 1024)  # 32 MiB
    async with StubInstance(tmp_path, slow) as instance, platform(instance) as running:
        client = await running.client()
        await client.post(b"", b"/f/echo/")  # a request without a body first, so that the connection is an old one
        go.set()
        await client.answer()
        go.clear()
        sending = asyncio.ensure_future(client.post(body))
        (front,) = running.fronts
        await until(lambda: not front.is_reading)
        (connection,) = instance.endpoint.connections
        assert connection.num_buffered_bytes < MIB  # type: ignore[attr-defined]
        assert not sending.done()
        go.set()
        assert (await client.answer()).body == b"done"
        await sending
        assert digest.digest() == hashlib.sha256(body).digest()


async def test_a_slow_client_slows_its_instance_and_nothing_is_held(tmp_path: Path) -> None:
    num_sent = 0
    body = bytes(range(256)) * (128 * 1024)  # 32 MiB

    async def large(call: Call) -> None:
        nonlocal num_sent
        await call.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), MIB):
            await call.send(body[at : at + MIB])
            num_sent += MIB

    async with StubInstance(tmp_path, large) as instance, platform(instance) as running:
        client = await running.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.post(b"")
        await until(lambda: len(running.fronts) == 1)
        (front,) = running.fronts
        await until(lambda: not front.keeps_up)
        (connection,) = instance.endpoint.connections
        assert connection.is_paused  # type: ignore[attr-defined]
        assert front.num_buffered_bytes < MIB
        assert num_sent < len(body) // 2
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        answer = await client.answer()
        assert hashlib.sha256(answer.body).digest() == hashlib.sha256(body).digest()


# --- forms of requests and answers


@pytest.mark.parametrize(
    ("method", "raw", "expected"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", b""),
        (b"GET", b"HTTP/1.1 204 None\r\n\r\n", b""),
        (b"GET", b"HTTP/1.1 304 Same\r\ncontent-length: 100\r\n\r\n", b""),
        (b"OPTIONS", b"HTTP/1.1 200 OK\r\nallow: POST\r\ncontent-length: 0\r\n\r\n", b""),
        (b"GET", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: x\r\n\r\n", b"ab"),
        (b"DELETE", b"HTTP/1.1 404 No\r\ncontent-length: 2\r\n\r\nno", b"no"),
    ],
)
async def test_answers_of_every_form_leave_the_connection_usable(
    tmp_path: Path, method: bytes, raw: bytes, expected: bytes
) -> None:
    async def as_told(call: Call) -> None:
        await call.body()
        await call.send(raw)

    async with StubInstance(tmp_path, as_told) as instance, platform(instance) as running:
        client = await running.client()
        for _ in range(3):
            await client.send(method + b" /f/echo/ HTTP/1.1\r\nHost: a\r\n\r\n")
            answer = await client.head()
            assert answer.raw_head in raw
            if expected or answer.status == 404:
                assert await read_body(client.reader, answer.headers) == expected
        assert instance.num_accepted == 1


async def test_ht_04_an_encoded_body_passes_untouched(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        body = gzip.compress(b'{"x": 1}')
        assert (await client.call(body, b"/f/echo/", b"Content-Encoding: gzip")).body == b"a:" + body
        assert instance.calls[0].headers[b"content-encoding"] == b"gzip"


async def test_a_chunked_request_arrives_chunked(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        for _ in range(2):
            await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            await client.send(b"0\r\n\r\n")
            assert (await client.answer()).body == b"a:abc"


async def test_an_http10_client_gets_the_answer_and_the_end(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(b"POST /f/echo/ HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi")
        answer = await client.answer()
        assert (answer.body, answer.headers[b"connection"]) == (b"a:hi", b"close")
        assert await client.at_end()
        assert instance.calls[0].first_line == b"POST / HTTP/1.0"


async def test_a_client_that_asks_to_close_is_told_and_closed(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        answer = await client.call(b"hi", b"/f/echo/", b"Connection: close")
        assert answer.headers[b"connection"] == b"close"
        assert await client.at_end()
        assert (await (await running.client()).call(b"hi")).status == 200
        assert instance.num_accepted == 1, "the connection to the instance stays"


async def test_an_answer_that_ends_with_its_connection(tmp_path: Path) -> None:
    async def endless(call: Call) -> None:
        await call.body()
        await call.send(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
        call.writer.close()

    async with StubInstance(tmp_path, endless) as instance, platform(instance) as running:
        client = await running.client()
        await client.post(b"")
        assert (await client.head()).headers[b"connection"] == b"close"
        assert await client.reader.read() == b"until the end"


# --- 100-continue, and answers before the body has been read


async def test_ht_10_with_expect_the_instance_says_whether_it_wants_the_body(tmp_path: Path) -> None:
    async def ask(call: Call) -> None:
        assert call.request.headers[b"expect"] == b"100-continue"
        if call.request.headers[b"content-length"] == b"5":
            await call.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            await call.reply(b"got " + await call.body())
        else:
            await call.reply(b"too large", 413)
            raise ConnectionError

    async with StubInstance(tmp_path, ask) as instance, platform(instance) as running:
        client = await running.client()
        head = b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: "
        await client.send(head + b"5\r\n\r\n")
        assert (await client.head()).status == 100
        await client.send(b"hello")
        assert (await client.answer()).body == b"got hello"
        await client.send(head + b"30000000\r\n\r\n")
        answer = await client.answer()
        assert (answer.status, answer.body, answer.headers[b"connection"]) == (413, b"too large", b"close")
        assert await client.at_end()


@pytest.mark.parametrize("chunked", [False, True])
async def test_ht_10_a_413_is_read_by_a_client_that_sends_all_before_it_reads(tmp_path: Path, chunked: bool) -> None:
    async def refuse(call: Call) -> None:
        await call.reply(b"too large", 413)
        call.reset()  # closed with the body unread

    async with StubInstance(tmp_path, refuse) as instance, platform(instance) as running:
        client = await running.client()
        piece = b"x" * 100_000
        if chunked:
            await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(300):
                await client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await client.send(b"0\r\n\r\n")
        else:
            await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n")
            for _ in range(300):
                await client.send(piece)
        answer = await client.answer()
        assert (answer.status, answer.body) == (413, b"too large")
        assert await client.at_end()


async def test_a_local_answer_is_read_by_a_client_that_is_still_sending(tmp_path: Path) -> None:
    async with platform() as running:
        client = await running.client()
        await client.send(b"POST /f/nothing/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
        for _ in range(100):
            await client.send(b"x" * 100_000)
        answer = await client.answer()
        assert (answer.status, answer.headers[b"connection"]) == (404, b"close")


# --- pipelining


async def test_pipelined_requests_are_answered_in_their_order(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        stream = b""
        for number in range(50):
            path = b"/f/echo/" if number % 3 else b"/f/nothing/"
            stream += b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n%02d" % (path, number)
        for at in range(0, len(stream), 97):
            await client.send(stream[at : at + 97])
        for number in range(50):
            answer = await client.answer()
            if number % 3:
                assert answer.body == b"a:%02d" % number
            else:
                assert answer.status == 404
        assert instance.num_accepted == 1


async def test_thousands_of_pipelined_requests_do_not_nest(tmp_path: Path) -> None:
    async with platform() as running:
        client = await running.client()
        sending = asyncio.ensure_future(client.send(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n" * 5000))
        for _ in range(5000):
            assert (await client.answer()).status == 404
        await sending


async def test_only_one_pipelined_request_is_at_an_instance(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def wait(call: Call) -> None:
        body = await call.body()
        await go.wait()
        await call.reply(body)

    async with StubInstance(tmp_path, wait) as instance, platform(instance) as running:
        client = await running.client()
        request = b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"
        await client.send(request + b"1" + request + b"2" + request)
        await until(lambda: len(instance.calls) == 1)
        (front,) = running.fronts
        assert not front.is_reading, "a client that sends on is not read from"
        go.set()
        assert (await client.answer()).body == b"1"
        assert (await client.answer()).body == b"2"
        await client.send(b"3")
        assert (await client.answer()).body == b"3"


# --- clients that leave


async def test_a_client_that_leaves_closes_the_connection_to_the_instance(tmp_path: Path) -> None:
    async with StubInstance(tmp_path, hang) as instance, platform(instance) as running:
        client = await running.client()
        await client.post(b"")
        await until(lambda: len(instance.calls) == 1)
        client.leave()
        await instance.disconnected.wait()
        assert running.capacity.counts.cancelled == 1


async def test_a_client_that_leaves_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    async def stream(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        await hang(call)

    async with StubInstance(tmp_path, stream) as instance, platform(instance) as running:
        client = await running.client()
        await client.post(b"")
        await client.head()
        client.leave()
        await instance.disconnected.wait()


async def test_a_client_that_leaves_while_its_reading_is_paused_is_noticed(tmp_path: Path) -> None:
    async with StubInstance(tmp_path, hang) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(b"GET /f/echo/ HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        await until(lambda: any(not front.is_reading for front in running.fronts))
        client.writer.close()
        await instance.disconnected.wait()
        await until(lambda: not running.fronts)


async def test_a_client_that_leaves_in_the_middle_of_its_request(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        await until(lambda: len(instance.calls) == 1)
        client.leave()
        await instance.disconnected.wait()
        other = await running.client()
        assert (await other.call(b"hi")).body == b"a:hi"


# --- limits


async def test_kn_07_a_burst_beyond_the_limit_is_served_within_it(tmp_path: Path) -> None:
    now, most = 0, 0

    async def count(call: Call) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        body = await call.body()
        await asyncio.sleep(0)
        now -= 1
        await call.reply(body)

    async with StubInstance(tmp_path, count) as instance, platform(instance, limit=8) as running:
        clients = [await running.client() for _ in range(700)]
        answers = await asyncio.gather(*(client.call(b"%d" % number) for number, client in enumerate(clients)))
        assert [answer.body for answer in answers] == [b"%d" % number for number in range(700)]
        assert most <= 8
        assert instance.num_accepted <= 8
        assert running.capacity.counts.failed == 0


async def test_requests_go_to_all_instances(tmp_path: Path) -> None:
    async with (
        StubInstance(tmp_path, name=b"a") as one,
        StubInstance(tmp_path, name=b"b") as other,
        platform(one, other, limit=10) as running,
    ):
        client = await running.client()
        names = [(await client.call(b"")).body for _ in range(6)]
        assert names == [b"a:", b"b:"] * 3
