"""Bodies that come slowly, at instances with room for one request: who is still sending keeps nobody else waiting."""

import asyncio
from pathlib import Path

import pytest

from tests.platform.stub import Call, StubInstance, platform, until

CALL_S = 0.2
LONG_CALL_S = 20.0
HEAD = b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"
CHUNKED = b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "first", "rest"),
    [(HEAD, b"01234", b"56789"), (CHUNKED, b"5\r\n01234\r\n", b"5\r\n56789\r\n0\r\n\r\n"), (HEAD, b"", b"0123456789")],
)
async def test_others_are_answered_meanwhile(tmp_path: Path, head: bytes, first: bytes, rest: bytes) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance, limit=1, call_s=LONG_CALL_S) as running:
        slow, quick = await running.client(), await running.client()
        await slow.send(head + first)
        await until(lambda: running.capacity.concurrency.current == 1)
        assert [(await quick.call()).body for _ in range(3)] == [b"a:hello"] * 3
        assert len(instance.calls) == 3
        await slow.send(rest)
        assert (await slow.answer()).body == b"a:0123456789"
        assert running.capacity.counts.requests == 4


async def test_who_is_still_sending_when_an_instance_gets_ready_lets_others_go_first(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(limit=1, call_s=LONG_CALL_S) as running:
        slow, quick = await running.client(), await running.client()
        await slow.send(HEAD + b"01234")
        await until(lambda: running.capacity.num_held == 1)
        await quick.post()
        await until(lambda: running.capacity.num_held == 2)
        running.capacity.add(instance.endpoint)
        assert (await quick.answer()).body == b"a:hello"
        await slow.send(b"56789")
        assert (await slow.answer()).body == b"a:0123456789"


async def test_one_who_has_sent_all_waits_for_his_turn(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance, limit=1, call_s=LONG_CALL_S) as running:
        slow, larger = await running.client(), await running.client()
        await slow.send(HEAD + b"01234")
        await until(lambda: running.capacity.concurrency.current == 1)
        await larger.send(b"POST /f/echo/ HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b"x" * 99_999)
        await until(lambda: len(instance.calls) == 1)
        await slow.send(b"56789")
        await until(lambda: running.capacity.num_held == 1)
        await larger.send(b"x")
        assert len((await larger.answer()).body) == 100_002
        assert (await slow.answer()).body == b"a:0123456789"


async def test_what_never_comes_is_a_504(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance, limit=1, call_s=CALL_S) as running:
        client = await running.client()
        await client.send(HEAD + b"01234")
        answer = await client.answer()
        assert (answer.status, answer.headers[b"connection"]) == (504, b"close")
        assert "the rest of the request" in answer.json()["detail"]
        assert instance.calls == []
        assert running.capacity.endpoints == (instance.endpoint,)


async def test_who_waits_to_be_asked_for_the_body_is_asked(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance, limit=1, call_s=LONG_CALL_S) as running:
        client = await running.client()
        await client.send(HEAD.replace(b"Host: a", b"Host: a\r\nExpect: 100-continue"))
        await until(lambda: len(instance.calls) == 1)
        await client.send(b"0123456789")
        assert (await client.answer()).body == b"a:0123456789"


async def test_what_is_said_to_be_large_is_answered_by_its_head(tmp_path: Path) -> None:
    async def refuse(call: Call) -> None:
        await call.reply(b"", 413, b"connection: close")

    async with StubInstance(tmp_path, refuse) as instance, platform(instance, limit=1, call_s=LONG_CALL_S) as running:
        client = await running.client()
        await client.send(HEAD.replace(b"10\r\n", b"100000\r\n"))
        assert (await client.answer()).status == 413


async def test_a_client_that_leaves_meanwhile_is_accounted_for(tmp_path: Path) -> None:
    async with StubInstance(tmp_path) as instance, platform(instance, limit=1, call_s=CALL_S) as running:
        client = await running.client()
        await client.send(HEAD + b"01234")
        await until(lambda: running.capacity.concurrency.current == 1)
        client.leave()
        await until(lambda: running.capacity.concurrency.current == 0)
        assert running.capacity.counts.cancelled == 1
        await asyncio.sleep(0)
        assert (await (await running.client()).call()).status == 200
