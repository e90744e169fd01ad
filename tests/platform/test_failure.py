"""The activator over real sockets: instances that die, close, refuse or talk nonsense."""

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faas.platform.endpoint import Endpoint
from tests.platform.stub import Call, StubInstance, echo, hang, platform, until

MUCH = b"x" * 6_000_000  # more than a stub instance reads ahead


async def test_fk_06_an_instance_that_dies_before_its_answer_is_a_502_within_a_second(tmp_path: Path) -> None:
    async def die(call: Call) -> None:
        if await call.body() == b"die":
            raise ConnectionError
        await call.reply(b"fine")

    async with StubInstance(tmp_path, die) as instance, platform(instance) as running:
        client, others = await running.client(), [await running.client() for _ in range(5)]
        began_s = time.monotonic()
        answers = await asyncio.gather(client.call(b"die"), *(other.call(b"live") for other in others))
        assert time.monotonic() - began_s < 1.0
        assert [answer.status for answer in answers] == [502, 200, 200, 200, 200, 200]
        assert answers[0].headers[b"content-type"] == b"application/problem+json"
        assert "went away" in answers[0].json()["detail"]
        assert (await client.call(b"live")).status == 200, "the client's connection stays"
        assert running.capacity.counts.failed == 1


async def test_answers_of_500_and_more_are_counted_as_errors(tmp_path: Path) -> None:
    statuses = {
        b"one": b"500 Internal Server Error",
        b"two": b"503 Service Unavailable",
        b"three": b"422 Unprocessable",
    }

    async def fail(call: Call) -> None:
        status = statuses[await call.body()]
        await call.send(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\nno")

    async with StubInstance(tmp_path, fail) as instance, platform(instance) as running:
        client = await running.client()
        assert [(await client.call(body)).status for body in statuses] == [500, 503, 422]
        assert (running.capacity.counts.errors, running.capacity.counts.failed) == (2, 0)


@pytest.mark.parametrize(
    "beginning",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ],
)
async def test_an_instance_that_dies_within_its_answer_cuts_the_connection(tmp_path: Path, beginning: bytes) -> None:
    async def half(call: Call) -> None:
        await call.body()
        await call.send(beginning)
        raise ConnectionError

    async with StubInstance(tmp_path, half) as instance, platform(instance) as running:
        client = await running.client()
        await client.post()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.answer()
        assert running.capacity.counts.failed == 1


@pytest.mark.parametrize(
    "beginning",
    [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-len", b"HTTP/1.1 103 Hints\r\nA: b\r\n\r\n"],
)
async def test_no_final_answer_begun_is_still_a_502(tmp_path: Path, beginning: bytes) -> None:
    async def half(call: Call) -> None:
        await call.body()
        await call.send(beginning)
        raise ConnectionError

    async with StubInstance(tmp_path, half) as instance, platform(instance) as running:
        client = await running.client()
        answer = await client.call()
        while answer.status < 200:
            answer = await client.answer()
        assert answer.status == 502


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000,
    ],
)
async def test_nonsense_from_an_instance_is_a_502(tmp_path: Path, nonsense: bytes) -> None:
    async def talk(call: Call) -> None:
        await call.body()
        await call.send(nonsense)
        await call.reader.read()
        raise ConnectionError

    async with StubInstance(tmp_path, talk) as instance, platform(instance) as running:
        client = await running.client()
        assert (await client.call()).status == 502
        await instance.disconnected.wait()


async def test_bytes_after_an_answer_reach_nobody(tmp_path: Path) -> None:
    async def forge(call: Call) -> None:
        await call.body()
        await call.send(
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 Forged\r\ncontent-length: 0\r\n\r\n"
        )

    async with StubInstance(tmp_path, forge) as instance, platform(instance) as running:
        client = await running.client()
        for _ in range(3):
            assert (await client.call()).body == b"ok"
        assert instance.num_accepted == 3, "such a connection is not used again"


async def test_bytes_on_an_idle_connection_close_it(tmp_path: Path) -> None:
    async def talkative(call: Call) -> None:
        await echo(call)
        await call.send(b"HTTP/1.1 408 Too Slow\r\ncontent-length: 0\r\n\r\n")

    async with StubInstance(tmp_path, talkative) as instance, platform(instance) as running:
        client = await running.client()
        for _ in range(5):
            assert (await client.call(b"x")).body == b"a:x"
            await until(lambda: not instance.endpoint.idle)


# --- sent to another: no byte was read


async def test_an_instance_that_refuses_connections_is_taken_out_and_the_request_sent_elsewhere(tmp_path: Path) -> None:
    reported: list[Endpoint] = []
    async with StubInstance(tmp_path) as instance, platform(limit=1, on_unreachable=reported.append) as running:
        gone = Endpoint(str(tmp_path / "gone.sock"))
        running.capacity.add(gone)
        running.capacity.add(instance.endpoint)
        client = await running.client()
        assert (await client.call(b"hi")).body == b"a:hi"
        assert reported == [gone]
        assert running.capacity.endpoints == (instance.endpoint,)
        assert (running.capacity.counts.retried, running.capacity.counts.failed) == (1, 0)


async def test_with_no_other_instance_the_request_is_held_again(tmp_path: Path) -> None:
    demanded = asyncio.Event()
    async with StubInstance(tmp_path) as instance, platform(on_demand=demanded.set) as running:
        running.capacity.add(Endpoint(str(tmp_path / "gone.sock")))
        client = await running.client()
        await client.post(b"hi")
        await demanded.wait()
        running.capacity.add(instance.endpoint)
        assert (await client.answer()).body == b"a:hi"
        assert instance.calls[0].headers[b"x-faas-cold"] == b"1"


async def test_it_is_not_tried_for_ever(tmp_path: Path) -> None:
    async with platform(limit=1) as running:
        for number in range(5):
            running.capacity.add(Endpoint(str(tmp_path / f"gone{number}.sock")))
        client = await running.client()
        answer = await client.call()
        assert answer.status == 503
        assert "3 times" in answer.json()["detail"]


async def test_an_idle_connection_that_the_instance_closed_costs_nothing(tmp_path: Path) -> None:
    async def close_after(call: Call) -> None:
        await echo(call)
        call.reset()
        raise ConnectionError

    async with StubInstance(tmp_path, close_after) as instance, platform(instance) as running:
        client = await running.client()
        for number in range(50):
            assert (await client.call(b"%d" % number)).body == b"a:%d" % number
        assert running.capacity.counts.failed == 0
        assert len(instance.calls) == 50


async def test_a_closed_idle_connection_is_noticed_when_it_is_used(tmp_path: Path) -> None:
    """The instance has closed, and the event of it has not been seen when the next request comes."""
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        await client.call(b"1")
        (idle,) = instance.endpoint.idle
        idle.pause()
        instance.hang_up()
        await until(lambda: instance.num_connections == 0)
        assert (await client.call(b"2")).body == b"a:2"
        assert (running.capacity.counts.retried, running.capacity.counts.failed) == (1, 0)


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(str(tmp_path / "listener.sock"))
        sock.listen(16)
        sock.setblocking(False)
        yield sock


async def test_a_request_that_nobody_accepted_is_sent_elsewhere(tmp_path: Path, listener: socket.socket) -> None:
    async with StubInstance(tmp_path) as instance, platform(limit=1) as running:
        dying = Endpoint(listener.getsockname())
        running.capacity.add(dying)
        client = await running.client()
        await client.post(b"hi")
        await until(lambda: dying.in_flight == 1)
        running.capacity.add(instance.endpoint)
        listener.close()
        assert (await client.answer()).body == b"a:hi"
        assert running.capacity.counts.retried >= 1


async def test_a_request_that_nobody_read_is_sent_elsewhere(tmp_path: Path, listener: socket.socket) -> None:
    async with StubInstance(tmp_path) as instance, platform(limit=1) as running:
        dying = Endpoint(listener.getsockname())
        running.capacity.add(dying)
        client = await running.client()
        await client.post(b"hi")
        await until(lambda: dying.in_flight == 1)
        accepted, _ = listener.accept()
        running.capacity.add(instance.endpoint)
        accepted.close()
        listener.close()
        assert (await client.answer()).body == b"a:hi"


async def test_a_request_that_a_dead_instance_never_read_is_sent_elsewhere_though_its_socket_is_open(
    tmp_path: Path, listener: socket.socket
) -> None:
    """The platform, not the instance, may hold the listening socket: then only it can tell of the death."""
    async with StubInstance(tmp_path) as instance, platform(limit=1) as running:
        dead = Endpoint(listener.getsockname())
        running.capacity.add(dead)
        client = await running.client()
        await client.post(b"hi")
        await until(lambda: dead.in_flight == 1)
        running.capacity.add(instance.endpoint)
        running.capacity.fail(dead)
        assert (await client.answer()).body == b"a:hi"
        assert not dead.connections


async def test_a_request_that_was_read_is_never_sent_twice(tmp_path: Path, listener: socket.socket) -> None:
    async with StubInstance(tmp_path) as instance, platform(limit=1) as running:
        dying = Endpoint(listener.getsockname())
        running.capacity.add(dying)
        client = await running.client()
        await client.post(b"hi")
        await until(lambda: dying.in_flight == 1)
        running.capacity.add(instance.endpoint)
        accepted, _ = listener.accept()
        assert accepted.recv(65536).endswith(b"hi")
        accepted.close()
        assert (await client.answer()).status == 502
        assert instance.calls == []


async def test_a_dead_instance_that_had_read_the_request_is_a_502(tmp_path: Path) -> None:
    async with StubInstance(tmp_path, hang) as instance, platform(instance) as running:
        client = await running.client()
        await client.post(b"hi")
        await until(lambda: len(instance.calls) == 1)
        running.capacity.fail(instance.endpoint)
        assert (await client.answer()).status == 502


async def test_a_large_request_that_was_partly_read_is_a_502(tmp_path: Path, listener: socket.socket) -> None:
    async with StubInstance(tmp_path) as instance, platform(limit=1) as running:
        dying = Endpoint(listener.getsockname())
        running.capacity.add(dying)
        client = await running.client()
        sending = asyncio.ensure_future(client.post(b"x" * 5_000_000))
        await until(lambda: dying.in_flight == 1)
        accepted, _ = listener.accept()
        assert accepted.recv(100)
        running.capacity.add(instance.endpoint)
        accepted.close()
        answer = await client.answer()
        assert (answer.status, answer.headers[b"connection"]) == (502, b"close")
        await sending


# --- connections that cannot be had


async def test_a_full_listen_queue_makes_requests_wait_not_fail(tmp_path: Path) -> None:
    """Instances accept few connections at a time: the rest is sent as answers come."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(str(tmp_path / "small.sock"))
        sock.listen(2)
        sock.setblocking(False)
        endpoint = Endpoint(sock.getsockname())
        async with platform(limit=0) as running:
            running.capacity.add(endpoint)
            clients = [await running.client() for _ in range(20)]
            calls = [asyncio.ensure_future(client.call(b"%d" % number)) for number, client in enumerate(clients)]
            await until(lambda: running.capacity.concurrency.current == 20)
            assert 0 < endpoint.in_flight < 20
            assert running.capacity.num_held == 20 - endpoint.in_flight
            serving = asyncio.ensure_future(_serve(sock))
            answers = await asyncio.gather(*calls)
            assert [answer.status for answer in answers] == [200] * 20
            serving.cancel()


async def _serve(sock: socket.socket) -> None:
    """Accept and answer one connection after another, and close it."""
    loop = asyncio.get_running_loop()
    while True:
        accepted, _ = await loop.sock_accept(sock)
        with accepted:
            await loop.sock_recv(accepted, 65536)
            await loop.sock_sendall(accepted, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


async def test_without_descriptors_the_answer_is_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        with monkeypatch.context() as patch:
            patch.setattr("faas.platform.back.socket.socket", _no_socket)
            answer = await client.call()
        assert (answer.status, answer.headers[b"retry-after"]) == (503, b"1")
        assert "Too many open files" in answer.json()["detail"]
        assert (await client.call(b"hi")).body == b"a:hi"


def _no_socket(*_: object) -> socket.socket:
    raise OSError(24, "Too many open files")


async def test_a_long_answer_of_an_instance_that_closed_with_bytes_unread_is_read_to_its_end(tmp_path: Path) -> None:
    """uvloop tells of such a socket only once."""
    body = bytes(range(256)) * 2048

    async def refuse(call: Call) -> None:
        await call.reply(body, 413)
        call.reset()

    async with StubInstance(tmp_path, refuse) as instance, platform(instance) as running:
        for _ in range(5):
            client = await running.client()
            sending = asyncio.ensure_future(client.post(MUCH))
            answer = await client.answer()
            assert (answer.status, answer.body) == (413, body)
            await sending


@pytest.mark.parametrize("num_bytes", [100, 300_000])
async def test_an_answer_cut_by_an_instance_that_closed_with_bytes_unread_is_cut(
    tmp_path: Path, num_bytes: int
) -> None:
    async def half(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n" + b"x" * num_bytes)
        call.reset()
        raise ConnectionError

    async with StubInstance(tmp_path, half) as instance, platform(instance) as running:
        client = await running.client()
        sending = asyncio.ensure_future(client.post(MUCH))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.answer()
        await until(lambda: not instance.endpoint.connections)
        sending.cancel()
