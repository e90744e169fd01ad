"""The activator over real sockets: the ends of connections, and of the activator."""

import asyncio
from pathlib import Path

import pytest

from faas.errors import SettingError
from faas.platform.clients import ActivatorSettings
from tests.platform.stub import Call, StubInstance, hang, platform, until
from tests.platform.test_upgrade import ASK, grant

SHORT = ActivatorSettings(keep_alive_s=0.05)


class Gate:
    """An instance's handler that answers when told to."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        body = await call.body()
        self.arrived.set()
        await self.go.wait()
        await call.reply(body)


async def test_draining_finishes_what_is_under_way_and_says_that_it_is_the_last(tmp_path: Path) -> None:
    gate = Gate()
    async with StubInstance(tmp_path, gate) as instance, platform(instance) as running:
        idle, busy = [await running.client() for _ in range(20)], await running.client()
        await busy.post(b"hi")
        await gate.arrived.wait()
        draining = asyncio.ensure_future(running.activator.drain(5))
        assert all([await client.at_end() for client in idle])
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await running.client()
        assert not draining.done()
        gate.go.set()
        answer = await busy.answer()
        assert (answer.status, answer.body, answer.headers[b"connection"]) == (200, b"hi", b"close")
        assert await busy.at_end()
        await draining


async def test_a_request_half_sent_when_draining_begins_is_answered(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(b"POST /f/echo/ HTTP/1.1\r\nHo")
        await until(lambda: any(not front.is_idle for front in running.fronts))
        draining = asyncio.ensure_future(running.activator.drain(5))
        await asyncio.sleep(0)
        await client.send(b"st: a\r\nContent-Length: 2\r\n\r\nhi")
        answer = await client.answer()
        assert (answer.body, answer.headers[b"connection"]) == (b"a:hi", b"close")
        await draining


async def test_held_requests_are_served_while_draining(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform() as running:
        client = await running.client()
        await client.post(b"hi")
        await until(lambda: running.capacity.num_held == 1)
        draining = asyncio.ensure_future(running.activator.drain(5))
        await asyncio.sleep(0)
        running.capacity.add(instance.endpoint)
        assert (await client.answer()).headers[b"connection"] == b"close"
        await draining


async def test_after_the_grace_what_is_left_is_cut(tmp_path: Path) -> None:
    async with StubInstance(tmp_path, hang) as instance, platform(instance) as running:
        client = await running.client()
        await client.post(b"hi")
        await until(lambda: len(instance.calls) == 1)
        await running.activator.drain(0.05)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.answer()
        await instance.disconnected.wait()


async def test_a_tunnel_lasts_until_the_grace_is_over(tmp_path: Path) -> None:
    async with StubInstance(tmp_path, grant) as instance, platform(instance) as running:
        client = await running.client()
        await client.send(ASK)
        await client.head()
        draining = asyncio.ensure_future(running.activator.drain(0.1))
        await asyncio.sleep(0)
        await client.send(b"still here\n")
        assert await client.reader.readline() == b"STILL HERE\n"
        await draining
        await instance.disconnected.wait()


async def test_draining_without_clients_is_done_at_once() -> None:
    async with platform() as running:
        await running.activator.drain(60)


# --- idle connections


async def test_ht_08_an_idle_connection_is_kept_for_75_s() -> None:
    assert ActivatorSettings().keep_alive_s == 75.0


async def test_an_idle_connection_is_closed_when_its_time_is_over() -> None:
    async with platform(settings=SHORT) as running:
        client = await running.client()
        assert await client.at_end()
        client = await running.client()
        assert (await client.call(b"", b"/f/nothing/")).status == 404
        assert await client.at_end()


async def test_ht_08_a_connection_used_within_its_time_stays(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance, settings=SHORT) as running:
        client = await running.client()
        for _ in range(5):
            await asyncio.sleep(0.02)
            assert (await client.call()).status == 200
        assert running.activator.clients.counts.accepted == 1


async def test_a_client_that_waits_for_its_answer_is_not_idle(tmp_path: Path) -> None:
    gate = Gate()
    async with StubInstance(tmp_path, gate) as instance, platform(instance, settings=SHORT) as running:
        client = await running.client()
        await client.post(b"hi")
        await asyncio.sleep(0.12)
        gate.go.set()
        assert (await client.answer()).body == b"hi"


@pytest.mark.parametrize(
    "half",
    [
        b"POST /f/echo/ HTTP/1.1\r\nHo",
        b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
        b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
async def test_a_client_that_stops_in_the_middle_of_its_request_is_told(tmp_path: Path, half: bytes) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance, settings=SHORT) as running:
        client = await running.client()
        await client.send(half)
        answer = await client.answer()
        assert (answer.status, answer.headers[b"connection"]) == (408, b"close")
        assert await client.at_end()
        assert instance.endpoint.in_flight == 0


async def test_the_time_for_a_head_is_not_lengthened_byte_by_byte() -> None:
    async with platform(settings=SHORT) as running:
        client = await running.client()
        await client.send(b"GET /f/echo/ HTTP/1.1\r\nX: ")

        async def trickle() -> None:
            while True:
                await client.send(b"x")
                await asyncio.sleep(0.01)

        trickling = asyncio.ensure_future(trickle())
        assert (await client.answer()).status == 408
        trickling.cancel()


async def test_a_client_that_reads_nothing_of_its_answer_is_cut(tmp_path: Path) -> None:
    async def endless(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await call.send(b"x" * 100_000)

    async with StubInstance(tmp_path, endless) as instance, platform(instance, settings=SHORT) as running:
        client = await running.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.post(b"")
        await instance.disconnected.wait()
        await until(lambda: running.activator.clients.counts.open == 0)


async def test_a_client_that_reads_slowly_is_not_cut(tmp_path: Path) -> None:
    body = b"x" * 12_000_000

    async def large(call: Call) -> None:
        await call.body()
        await call.reply(body, 200, b"connection: close")

    settings = ActivatorSettings(keep_alive_s=0.05, linger_s=0.05)
    async with StubInstance(tmp_path, large) as instance, platform(instance, settings=settings) as running:
        client = await running.client()
        await client.post(b"", b"/f/echo/", b"Connection: close")
        await client.head()
        num_read = 0
        while num_read < len(body):
            num_read += len(await client.reader.read(1_000_000))
            await asyncio.sleep(0.02)
        assert await client.at_end()


async def test_a_slow_but_steady_client_is_served(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance, settings=SHORT) as running:
        client = await running.client()
        await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n")
        for _ in range(8):
            await asyncio.sleep(0.02)
            await client.send(b"x")
        assert (await client.answer()).body == b"a:xxxxxxxx"


async def test_a_client_that_goes_on_sending_after_the_last_answer_is_not_read_for_ever() -> None:
    async with platform(settings=ActivatorSettings(linger_s=0.05)) as running:
        client = await running.client()
        await client.send(b"POST /f/nothing/ HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nabc")
        assert (await client.answer()).status == 404
        await until(lambda: running.activator.clients.counts.open == 0)


@pytest.mark.parametrize("wrong", [{"keep_alive_s": 0}, {"linger_s": -1}, {"keep_alive_s": float("nan")}])
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingError, match="give seconds above 0"):
        ActivatorSettings(**wrong)
