from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from faas import Batching, Calls, endpoint, inference_function
from faas.handler import Handler
from faas.runtime import Runtime
from faas.server import KEEP_ALIVE_S
from faas.server.serve import Server, Stop
from tests.server.answers import echo, problem

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).with_name("program.py")


@dataclass
class Instance:
    process: asyncio.subprocess.Process
    port: int
    folder: Path

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ended(self, within_s: float) -> int:
        return await asyncio.wait_for(self.process.wait(), within_s)


@contextlib.asynccontextmanager
async def instance(folder: Path, grace_s: float = 3.0, lame_duck_s: float = 0.0) -> AsyncIterator[Instance]:
    port_file = folder / "port"
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), str(port_file), str(grace_s), str(lame_duck_s), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"ready\n"
        yield Instance(process, int(port_file.read_text()), folder)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def post(path: str, body: str = "", accept: str = "*/*") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


async def head_and_body(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length"))
    return head, await reader.readexactly(length)


async def test_ht_07_drain_with_a_stream_a_request_and_idle_connections(tmp_path):
    async with instance(tmp_path, grace_s=2.0) as served:
        idle = [await served.connect() for _ in range(20)]
        for reader, writer in idle:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in (await head_and_body(reader))[0]
        stream, stream_writer = await served.connect()
        stream_writer.write(post("/endless", accept="text/event-stream"))
        await asyncio.wait_for(stream.readuntil(b"data: 3\n\n"), 20)
        request, request_writer = await served.connect()
        request_writer.write(post("/", "1.0"))
        writers = [request_writer, stream_writer, *(writer for _, writer in idle)]
        await asyncio.sleep(0.2)  # the request is on its way
        served.process.send_signal(signal.SIGTERM)

        head, body = await head_and_body(request)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in head
        assert body == b"1.0"
        rest = await asyncio.wait_for(stream.read(), 20)
        events = [part for part in rest.split(b"\n\n") if b"event: error" in part]
        assert len(events) == 1
        data = events[0].split(b"data: ")[1]
        assert json.loads(data)["status"] == 503
        assert rest.endswith(b"0\r\n\r\n"), "the stream is closed, not cut"
        for reader, _ in idle:
            assert await asyncio.wait_for(reader.read(), 20) == b""
        assert await served.ended(20) == 0
        assert (tmp_path / "teardown").read_text() == "done"
        for writer in writers:
            writer.close()


async def test_a_terminal_that_goes_ends_it_as_sigterm_does(tmp_path):
    async with instance(tmp_path, grace_s=2.0) as served:
        served.process.send_signal(signal.SIGHUP)
        assert await served.ended(20) == 0
        assert (tmp_path / "teardown").read_text() == "done"


async def test_ht_07_a_second_signal_ends_at_once(tmp_path):
    async with instance(tmp_path, grace_s=600.0) as served:
        reader, writer = await served.connect()
        writer.write(post("/", "600"))
        probe, probe_writer = await served.connect()
        served.process.send_signal(signal.SIGTERM)
        while True:
            probe_writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            head, _ = await head_and_body(probe)
            if b" 503 " in head:
                break
        served.process.send_signal(signal.SIGINT)
        assert await served.ended(20) == 128 + signal.SIGINT
        assert not (tmp_path / "teardown").exists()
        for each in (writer, probe_writer):
            each.close()
        with contextlib.suppress(ConnectionError):
            await reader.read()


@pytest.mark.parametrize(("path", "answer"), [("/child", b"-15"), ("/pool", b"[1,2]")])
async def test_fk_04_processes_that_a_handler_forks_end_by_a_signal_and_the_server_does_not(tmp_path, path, answer):
    async with instance(tmp_path) as served:
        reader, writer = await served.connect()
        for _ in range(5):
            writer.write(post(path, "{}"))
            assert (await head_and_body(reader))[1] == answer
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in (await head_and_body(reader))[0]
        writer.close()
        served.process.send_signal(signal.SIGTERM)
        assert await served.ended(20) == 0


async def test_a_handler_that_blocks_for_ever_does_not_hold_the_exit(tmp_path, monkeypatch):
    async with instance(tmp_path, grace_s=0.2) as served:
        reader, writer = await served.connect()
        writer.write(post("/block"))
        await asyncio.sleep(0.2)  # the handler has begun
        served.process.send_signal(signal.SIGTERM)
        head, body = await head_and_body(reader)
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body)["status"] == 503
        assert await served.ended(30) == 0
        writer.close()


async def test_kn_01_nobody_is_refused_during_the_lame_duck_period(tmp_path):
    async with instance(tmp_path, lame_duck_s=4.0) as served:
        url = f"http://127.0.0.1:{served.port}"
        async with httpx.AsyncClient(base_url=url, timeout=20) as proxy:
            assert (await proxy.get("/readyz")).status_code == 200
            told_at = time.monotonic()
            served.process.send_signal(signal.SIGTERM)
            while (await proxy.get("/readyz")).status_code != 503:
                pass
            while time.monotonic() < told_at + 1.5:
                response = await proxy.post("/", json=0.01)
                assert response.status_code == 200
                assert response.headers["connection"] == "close"
                await asyncio.sleep(0.03)  # as a proxy that goes on sending
        assert await served.ended(20) == 0
        assert (tmp_path / "teardown").exists()


async def test_ht_08_an_idle_connection_is_kept_as_long_as_is_said(serving):
    assert KEEP_ALIVE_S > 60, "load balancers keep theirs for 60 s"
    async with serving(echo, keep_alive_s=1.0) as served:
        reader, writer = await served.raw()
        for _ in range(2):
            writer.write(post("/", "1"))
            head, _ = await head_and_body(reader)
            assert b" 200 " in head
            assert b"connection: close" not in head
            await asyncio.sleep(0.5)
        assert await asyncio.wait_for(reader.read(), 10) == b"", "and then closed"
        writer.close()


async def test_ht_08_answers_close_their_connections_while_draining(serving):
    begun, may_end = asyncio.Event(), asyncio.Event()

    @inference_function
    class Two:
        @endpoint("/")
        async def quick(self) -> int:
            return 1

        @endpoint("/slow")
        async def slow(self) -> int:
            begun.set()
            await may_end.wait()
            return 2

    async with serving(Two) as served:
        kept, kept_writer = await served.raw()
        kept_writer.write(post("/"))
        assert b"connection: close" not in (await head_and_body(kept))[0]
        slow = asyncio.create_task(served.client.post("/slow"))
        await asyncio.wait_for(begun.wait(), 10)
        served.stop.tell()
        while served.runtime.admitting:
            await asyncio.sleep(0)
        kept_writer.write(post("/"))
        head, body = await head_and_body(kept)
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"connection: close" in head
        assert b"retry-after: " in head
        assert json.loads(body)["status"] == 503
        assert await kept.read() == b""
        kept_writer.close()
        ready = await served.client.get("/readyz")
        assert (ready.status_code, ready.json()["state"]) == (503, "draining")
        assert (await served.client.get("/livez")).status_code == 200
        may_end.set()
        response = await slow
        assert response.json() == 2
        assert response.headers["connection"] == "close"
        assert await asyncio.wait_for(served.done, 10) == 0


async def test_a_body_still_being_sent_while_draining_is_refused_readably(serving):
    begun, may_end = asyncio.Event(), asyncio.Event()

    @inference_function
    async def wait(x: int) -> int:
        begun.set()
        await may_end.wait()
        return x

    async with serving(wait) as served:
        held = asyncio.create_task(served.post(1))
        await asyncio.wait_for(begun.wait(), 10)
        served.stop.tell()
        while served.runtime.admitting:
            await asyncio.sleep(0)
        reader, writer = await served.raw()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n")
        for _ in range(3):
            writer.write(bytes(100_000))
            await writer.drain()
        head, body = await head_and_body(reader)
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body)["status"] == 503
        assert await reader.read() == b""
        writer.close()
        may_end.set()
        await held


async def test_unix_sockets_are_served(tmp_path):
    path = str(tmp_path / "s")
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    handler, stop, ready = Handler(echo), Stop(), asyncio.Event()
    runtime = Runtime(echo, handler, version="1")
    done = asyncio.create_task(
        Server(runtime).serve([sock], load=handler.setup, grace_s=1, stop=stop, on_ready=ready.set)
    )
    await asyncio.wait_for(ready.wait(), 10)
    transport = httpx.AsyncHTTPTransport(uds=path)
    async with httpx.AsyncClient(transport=transport, base_url="http://x", timeout=20) as client:
        assert (await client.post("/", json=5)).json() == 5
    stop.tell()
    assert await asyncio.wait_for(done, 10) == 0


async def test_told_to_stop_before_it_is_ready(serving):
    entered, may_load = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def load() -> None:
        loop.call_soon_threadsafe(entered.set)
        may_load.wait(20)

    async with serving(echo, load=load, ready_first=False) as served:
        await asyncio.wait_for(entered.wait(), 10)
        served.stop.tell()
        try:
            assert await asyncio.wait_for(served.done, 10) == 0
        finally:
            may_load.set()
        assert not served.ready.is_set()


async def test_kn_07_a_burst_is_shed_and_nobody_is_reset(serving):
    gate = threading.Event()

    @inference_function(batching=Batching(max_batch_size=8, wait_ms=1), calls=Calls(max_queue=32))
    def gated(xs: list[int]) -> list[int]:
        gate.wait(20)
        return xs

    async def one(number: int, shed: asyncio.Semaphore) -> int:
        reader, writer = await served.raw()
        writer.write(post("/", str(number)))
        head, body = await head_and_body(reader)
        writer.close()
        status = int(head.split()[1])
        if status == 429:
            assert b"retry-after: " in head
            shed.release()
        else:
            assert json.loads(body) == number
        return status

    async with serving(gated) as served:
        for _ in range(7):
            gate.clear()
            shed = asyncio.Semaphore(0)
            burst = [asyncio.create_task(one(number, shed)) for number in range(100)]
            for _ in range(100 - 32 - 8):
                await asyncio.wait_for(shed.acquire(), 20)
            gate.set()
            statuses = await asyncio.gather(*burst)
            assert set(statuses) == {200, 429}
            assert 33 <= statuses.count(200) <= 40
        assert (await served.post(5)).json() == 5
        problem(await served.post("x"), 422)
