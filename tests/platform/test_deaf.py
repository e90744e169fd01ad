"""Instances that take a request and never answer, or never come to the end of an answer."""

import asyncio
import contextlib
from pathlib import Path

from tests.platform.stub import Call, StubInstance, hang, platform, until

CALL_S = 0.2
LONG_CALL_S = 2.0  # of what must not be late however busy the machine is


async def test_a_deaf_instance_is_a_504_and_gets_nothing_more(tmp_path: Path) -> None:
    told = []
    async with (
        StubInstance(tmp_path, hang) as instance,
        platform(instance, call_s=CALL_S, on_unreachable=told.append) as running,
    ):
        client = await running.client()
        answer = await client.call()
        assert (answer.status, answer.json()["type"]) == (504, "urn:problem-type:faas:deadline-exceeded")
        assert told == [instance.endpoint]
        assert running.capacity.is_at_zero
        await instance.disconnected.wait()


async def test_of_several_deaf_calls_each_is_told(tmp_path: Path) -> None:
    async with StubInstance(tmp_path, hang) as instance, platform(instance, call_s=CALL_S) as running:
        clients = [await running.client() for _ in range(5)]
        answers = await asyncio.gather(*(client.call() for client in clients))
        assert [answer.status for answer in answers] == [504] * 5
        assert running.capacity.counts.failed == 5


async def test_a_stream_without_end_is_cut_when_its_time_is_up(tmp_path: Path) -> None:
    async def stream(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
        await call.reader.read()

    async with StubInstance(tmp_path, stream) as instance, platform(instance, call_s=CALL_S) as running:
        client = await running.client()
        await client.post()
        assert (await client.head()).status == 200
        rest = b""
        with contextlib.suppress(ConnectionResetError):
            rest = await client.reader.read()
        assert not rest.endswith(b"0\r\n\r\n"), "the client must see that it is not whole"
        await until(lambda: instance.num_connections == 0)


async def test_a_client_that_reads_slowly_costs_an_instance_nothing(tmp_path: Path) -> None:
    body = b"x" * 40_000_000  # more than the kernel holds

    async def large(call: Call) -> None:
        await call.body()
        await call.reply(body)

    async with StubInstance(tmp_path, large) as instance, platform(instance, call_s=CALL_S) as running:
        client = await running.client()
        await client.post()
        await client.head()
        num_read = 0
        while num_read < len(body):
            num_read += len(await client.reader.read(2_000_000))
            await asyncio.sleep(CALL_S / 4)
        assert running.capacity.endpoints == (instance.endpoint,)
        assert running.capacity.counts.failed == 0
        assert (await (await running.client()).call()).status == 200


async def test_a_client_that_sends_slowly_is_told_and_costs_an_instance_nothing(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance, call_s=CALL_S) as running:
        client = await running.client()
        await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nand")
        answer = await client.answer()
        assert (answer.status, answer.headers[b"connection"]) == (504, b"close")
        assert "the rest of the request" in answer.json()["detail"]
        assert running.capacity.endpoints == (instance.endpoint,)
        assert (await (await running.client()).call()).status == 200


async def test_an_instance_that_reads_nothing_of_a_request_is_deaf(tmp_path: Path) -> None:
    async def never(call: Call) -> None:
        call.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    async with StubInstance(tmp_path, never) as instance, platform(instance, call_s=CALL_S) as running:
        client = await running.client()
        await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 3_000_000)
        assert (await client.answer()).status == 504
        assert running.capacity.is_at_zero


async def test_a_tunnel_has_all_the_time(tmp_path: Path) -> None:
    async def upgrade(call: Call) -> None:
        await call.send(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
        while data := await call.reader.read(100):
            await call.send(data)
        raise ConnectionError

    async with StubInstance(tmp_path, upgrade) as instance, platform(instance, call_s=LONG_CALL_S) as running:
        client = await running.client()
        await client.send(b"GET /f/echo/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        assert (await client.head()).status == 101
        overdue = asyncio.Event()
        asyncio.get_running_loop().call_later(1.5 * LONG_CALL_S, overdue.set)
        await overdue.wait()
        await client.send(b"still here")
        assert await client.reader.readexactly(10) == b"still here"
        client.leave()
        await instance.disconnected.wait()


async def test_a_call_sent_elsewhere_has_its_time_again(tmp_path: Path) -> None:
    """What was never read by one instance is not late at the next; and its first clock is stopped."""
    async with StubInstance(tmp_path, name=b"b") as other:
        gone = StubInstance(tmp_path, name=b"a")
        async with platform(gone, limit=1, call_s=LONG_CALL_S) as running:  # the first of them is tried first
            running.capacity.add(other.endpoint)
            client = await running.client()
            assert (await client.call()).body == b"b:hello"
            overdue = asyncio.Event()
            asyncio.get_running_loop().call_later(1.5 * LONG_CALL_S, overdue.set)
            await overdue.wait()
            assert (await client.call()).body == b"b:hello"
            assert running.capacity.endpoints == (other.endpoint,)
