"""The activator over real sockets: requests forwarded and held."""

import asyncio
from pathlib import Path

from tests.platform.stub import StubInstance, platform, until


async def test_a_request_reaches_an_instance_and_its_answer_the_client(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        answer = await client.call(b"hello", b"/f/echo/rest?x=1")
        assert (answer.status, answer.body) == (200, b"a:hello")
        assert instance.calls[0].first_line == b"POST /rest?x=1 HTTP/1.1"
        assert instance.calls[0].headers[b"host"] == b"here"
        assert running.router.seen == [(b"here", b"/f/echo/rest", b"POST")]


async def test_both_sides_keep_their_connection(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance) as running:
        client = await running.client()
        for number in range(20):
            assert (await client.call(b"%d" % number)).body == b"a:%d" % number
        assert instance.num_accepted == 1
        assert running.activator.counts.accepted == 1


async def test_a_request_at_zero_is_held_until_an_instance_is_ready(tmp_path: Path) -> None:
    demanded = asyncio.Event()
    async with StubInstance(tmp_path) as instance, platform(on_demand=demanded.set) as running:
        client = await running.client()
        await client.post(b"hello")
        await demanded.wait()
        assert running.capacity.num_held == 1
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


async def test_an_unknown_function_is_a_404(tmp_path: Path) -> None:
    async with platform() as running:
        client = await running.client()
        answer = await client.call(b"", b"/f/nothing/")
        assert answer.status == 404
        assert answer.headers[b"content-type"] == b"application/problem+json"
        assert answer.json()["detail"] == "no function at /f/nothing/"
        assert (await client.call(b"", b"/f/nothing/")).status == 404


async def test_a_client_that_leaves_closes_the_connection_to_the_instance(tmp_path: Path) -> None:
    async def never(call: object) -> None:
        await call.reader.read()  # type: ignore[attr-defined]
        raise ConnectionError

    async with StubInstance(tmp_path, never) as instance, platform(instance) as running:
        client = await running.client()
        await client.post(b"")
        await until(lambda: len(instance.calls) == 1)
        client.leave()
        await instance.disconnected.wait()
        assert running.capacity.counts.cancelled == 1
