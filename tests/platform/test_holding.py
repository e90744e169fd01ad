"""The activator over real sockets: requests that wait for an instance."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from faas.platform.breaker import Capacity
from faas.platform.endpoint import Endpoint
from tests.platform.stub import Call, StubInstance, platform, until


async def test_a_request_at_zero_is_held_until_an_instance_is_ready(tmp_path: Path) -> None:
    demanded = asyncio.Event()
    async with StubInstance(tmp_path) as instance, platform(on_demand=demanded.set) as running:
        client = await running.client()
        await client.post(b"hello")
        await demanded.wait()
        assert running.capacity.num_held == 1
        assert running.capacity.concurrency.current == 1, "a held request is load"
        running.capacity.add(instance.endpoint)
        assert (await client.answer()).body == b"a:hello"
        headers = instance.calls[0].headers
        assert headers[b"x-faas-cold"] == b"1"
        assert float(headers[b"x-faas-activate-ms"]) > 0
        assert (await client.call()).status == 200
        assert b"x-faas-cold" not in instance.calls[1].headers
        assert b"x-faas-activate-ms" not in instance.calls[1].headers
    counts = running.capacity.counts
    assert (counts.requests, counts.held, counts.cold, counts.failed) == (2, 1, 1, 0)


async def test_one_who_waits_for_a_busy_instance_is_held_but_not_cold(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def wait(call: Call) -> None:
        body = await call.body()
        await go.wait()
        await call.reply(body)

    async with StubInstance(tmp_path, wait) as instance, platform(instance, limit=1) as running:
        first, second = await running.client(), await running.client()
        await first.post(b"1")
        await until(lambda: len(instance.calls) == 1)
        await second.post(b"2")
        await until(lambda: running.capacity.num_held == 1)
        go.set()
        assert [(await client.answer()).body for client in (first, second)] == [b"1", b"2"]
        assert b"x-faas-activate-ms" in instance.calls[1].headers
        assert b"x-faas-cold" not in instance.calls[1].headers
        assert (running.capacity.counts.held, running.capacity.counts.cold) == (1, 0)


def holds(capacity: Capacity, num_requests: int) -> bool:
    return capacity.num_held == num_requests


async def test_held_requests_go_in_the_order_of_their_arrival(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(limit=1) as running:
        clients = [await running.client() for _ in range(30)]
        for number, client in enumerate(clients, start=1):
            await client.post(b"%d" % number)
            await until(partial(holds, running.capacity, number))
        running.capacity.add(instance.endpoint)
        for number, client in enumerate(clients, start=1):
            assert (await client.answer()).body == b"a:%d" % number
        waits_ms = [float(call.headers[b"x-faas-activate-ms"]) for call in instance.calls]
        assert [int(call.headers[b"content-length"]) for call in instance.calls] == [1] * 9 + [2] * 21
        assert min(waits_ms) > 0


@pytest.mark.parametrize(("headers", "hold_s"), [((), 0.05), ((b"X-Request-Timeout-Ms: 50",), 60.0)])
async def test_a_deadline_that_passes_while_held_is_a_504(headers: tuple[bytes, ...], hold_s: float) -> None:
    async with platform(hold_s=hold_s) as running:
        client = await running.client()
        clock = asyncio.get_running_loop().time  # the deadline's, which may count whole milliseconds
        began_s = clock()
        answer = await client.call(b"hello", b"/f/echo/", *headers)
        assert answer.status == 504
        assert answer.headers[b"content-type"] == b"application/problem+json"
        assert clock() - began_s >= 0.05 - 1e-9  # as floats are subtracted
        assert running.capacity.num_held == 0
        assert (await client.call(b"", b"/f/nothing/")).status == 404, "the connection stays"
        assert running.capacity.counts.failed == 1


@pytest.mark.parametrize(("path", "status"), [(b"/f/echo/", 429), (b"/f/echo/v1/models", 503), (b"/f/echo/v2/", 503)])
async def test_a_full_queue_says_so_at_once(path: bytes, status: int) -> None:
    async with platform(queue_limit=1) as running:
        first, second = await running.client(), await running.client()
        await first.post()
        await until(lambda: running.capacity.num_held == 1)
        answer = await second.call(b"", path)
        assert (answer.status, answer.headers[b"retry-after"]) == (status, b"1")
        assert answer.json()["type"] == "urn:problem-type:faas:queue-full"
        assert running.capacity.num_held == 1


async def test_who_waits_is_told_when_no_instance_can_be_had(tmp_path: Path) -> None:
    async with platform() as running:
        client = await running.client()
        await client.post()
        await until(lambda: running.capacity.num_held == 1)
        running.capacity.give_up("instances fail to start: no such file", 7)
        answer = await client.answer()
        assert (answer.status, answer.headers[b"retry-after"]) == (503, b"7")
        assert answer.json()["detail"] == "instances fail to start: no such file"


async def test_a_client_that_leaves_gives_up_its_place(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform() as running:
        gone, stays = await running.client(), await running.client()
        await gone.post(b"gone")
        await stays.post(b"stays")
        await until(lambda: running.capacity.num_held == 2)
        gone.leave()
        await until(lambda: running.capacity.num_held == 1)
        running.capacity.add(instance.endpoint)
        assert (await stays.answer()).body == b"a:stays"
        assert len(instance.calls) == 1
        assert running.capacity.counts.cancelled == 1


async def test_a_large_body_waits_with_its_client(tmp_path: Path) -> None:
    body = bytes(range(256)) * (64 * 1024)  # 16 MiB
    async with StubInstance(tmp_path) as instance, platform() as running:
        client = await running.client()
        sending = asyncio.ensure_future(client.post(body))
        await until(lambda: any(not front.is_reading for front in running.fronts))
        assert not sending.done()
        running.capacity.add(instance.endpoint)
        assert (await client.answer()).body == b"a:" + body
        await sending


async def test_a_client_that_leaves_with_its_body_unread_gives_up_its_place() -> None:
    async with platform() as running:
        client = await running.client()
        sending = asyncio.ensure_future(client.post(b"x" * 10_000_000))
        await until(lambda: any(not front.is_reading for front in running.fronts))
        assert running.capacity.num_held == 1
        sending.cancel()
        client.reset()
        await until(lambda: running.capacity.num_held == 0)
        assert running.capacity.counts.cancelled == 1


async def test_a_body_that_arrives_while_held_is_sent_whole(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform() as running:
        client = await running.client()
        await client.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await until(lambda: running.capacity.num_held == 1)
        await client.send(b"2\r\nde\r\n0\r\n")
        await client.send(b"\r\n")
        (front,) = running.fronts
        await until(lambda: front.has_whole_request)
        running.capacity.add(instance.endpoint)
        assert (await client.answer()).body == b"a:abcde"


async def test_the_clients_timeout_is_shortened_by_the_wait(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform() as running:
        client = await running.client()
        await client.post(b"", b"/f/echo/", b"X-Request-Timeout-Ms: 5000")
        await until(lambda: running.capacity.num_held == 1)
        await asyncio.sleep(0.02)
        running.capacity.add(instance.endpoint)
        await client.answer()
        assert int(instance.calls[0].headers[b"x-request-timeout-ms"]) <= 4980


async def test_all_requests_of_many_transitions_are_answered(tmp_path: Path) -> None:
    """Instances come and go while requests arrive: none is lost, none is refused."""
    made: list[Endpoint] = []

    async with StubInstance(tmp_path) as instance, platform(limit=2) as running:

        async def transitions() -> None:
            for _ in range(50):
                endpoint = Endpoint(instance.address)
                made.append(endpoint)
                running.capacity.add(endpoint)
                for _ in range(3):
                    await asyncio.sleep(0)
                drained = asyncio.Event()
                running.capacity.remove(endpoint, drained.set)
                await drained.wait()
            running.capacity.add(Endpoint(instance.address))

        async def calls(number: int) -> None:
            client = await running.client()
            for count in range(20):
                body = b"%d-%d" % (number, count)
                assert (await client.call(body)).body == b"a:" + body

        await asyncio.gather(transitions(), *(calls(number) for number in range(20)))
        assert all(not endpoint.connections for endpoint in made), "a removed instance keeps no connection"
        assert running.capacity.counts.failed == 0
