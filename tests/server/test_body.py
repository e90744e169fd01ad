from __future__ import annotations

import asyncio
import gc
import gzip
import json
import tracemalloc
import zlib
from dataclasses import dataclass
from typing import Any

import pytest

from faas import Batching, Calls, inference_function
from faas.large_memory import PutOff
from tests.server.answers import echo, problem

pytestmark = pytest.mark.anyio


@inference_function(calls=Calls(max_payload="1Mi"))
async def size(data: bytes) -> int:
    return len(data)


@pytest.mark.parametrize(
    ("stated", "body", "status"),
    [
        ("application/json;charset=utf-8", b'"\xc3\xa9"', 200),
        ('Application/JSON; Charset="UTF-8"', b'"\xc3\xa9"', 200),
        ("application/vnd.x+json", b'"\xc3\xa9"', 200),
        (None, b'"\xc3\xa9"', 200),
        ("application/x-www-form-urlencoded", b'"\xc3\xa9"', 200),
        ("application/json; charset=utf-16", '"\u00e9"'.encode("utf-16"), 200),
        ("application/json; charset=latin-1", b'"\xe9"', 200),
        ("application/json; charset=utf-16", b'"\xe9"\xff', 400),
        ("application/json; charset=base64", b"IsOpIg==", 415),
        ("application/json; charset=punycode", b'"\xc3\xa9"', 415),
        ("application/json; charset=klingon", b'"\xc3\xa9"', 415),
        ("text/plain", b'"\xc3\xa9"', 415),
        ("image/png", b'"\xc3\xa9"', 415),
        ("multipart/form-data", b'"\xc3\xa9"', 400),
    ],
)
async def test_ht_03_content_types(serving, stated, body, status):
    async with serving(echo) as served:
        response = await served.post(content=body, headers={"Content-Type": stated} if stated else {})
        if status == 200:
            assert response.json() == "\u00e9"
        else:
            problem(response, status)


@pytest.mark.parametrize("stated", ["image/png", "text/plain", "application/json", None, "application/octet-stream"])
async def test_raw_bytes_take_any_type(serving, stated):
    async with serving(size) as served:
        response = await served.post(content=b"\xff" * 5, headers={"Content-Type": stated} if stated else {})
        assert response.json() == 5


def raw_deflate(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", gzip.compress(b'{"a": 1}', mtime=0), 200),
        ("GZIP", gzip.compress(b'{"a"', mtime=0) + gzip.compress(b": 1}", mtime=0), 200),
        ("deflate", zlib.compress(b'{"a": 1}'), 200),
        ("deflate", raw_deflate(b'{"a": 1}'), 200),
        ("identity", b'{"a": 1}', 200),
        ("zstd", b'{"a": 1}', 415),
        ("br", b'{"a": 1}', 415),
        ("gzip, gzip", b'{"a": 1}', 415),
        ("gzip", b'{"a": 1}', 400),
        ("gzip", gzip.compress(b'{"a": 1}', mtime=0)[:-6], 400),
        ("gzip", gzip.compress(b'{"a": 1}', mtime=0) + b"secret", 400),
        ("gzip", b"", 400),
        ("gzip", gzip.compress(b"", mtime=0) * 2000, 400),
    ],
)
async def test_ht_04_content_encodings(serving, encoding, body, status):
    async with serving(echo) as served:
        response = await served.post(content=body, headers={"Content-Encoding": encoding})
        if status == 200:
            assert response.json() == {"a": 1}
        else:
            assert "secret" not in problem(response, status)["detail"]


async def test_ht_04_a_bomb_is_refused_without_unpacking_it(serving):
    bomb = gzip.compress(bytes(16 * 2**20)) * 64  # 1 MB that unpacks to 1 GB

    @inference_function(calls=Calls(max_payload="8Mi"))
    async def small(data: bytes) -> int:
        return len(data)

    async with serving(small) as served:
        tracemalloc.start()
        try:
            response = await served.post(content=bomb, headers={"Content-Encoding": "gzip"})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        problem(response, 413)
        assert peak < 50 * 2**20
        whole = gzip.compress(bytes(8 * 2**20))
        for packed in (whole, gzip.compress(bytes(2**20)) * 8):
            assert (await served.post(content=packed, headers={"Content-Encoding": "gzip"})).json() == 8 * 2**20


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, dict[str, Any]]:
    """Return the head and the JSON of one answer with a stated length."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length"))
    return head, json.loads(await reader.readexactly(length))


async def test_ht_10_expect_gets_its_413_before_any_body(serving):
    async with serving(size) as served:
        reader, writer = await served.raw()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 31457280\r\n\r\n")
        head, said = await answer(reader)
        assert head.startswith(b"HTTP/1.1 413 "), "and no 100 before it"
        assert said["status"] == 413
        assert await reader.read() == b"", "the connection is closed"
        writer.close()
        reader, writer = await served.raw()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(b"abc")
        assert (await answer(reader))[1] == 3
        writer.close()


@pytest.mark.parametrize("chunked", [False, True], ids=["plain", "chunked"])
async def test_ht_10_who_writes_all_before_reading_reads_the_413(serving, chunked):
    async with serving(size) as served:
        reader, writer = await served.raw()
        piece = bytes(64 * 1024)
        tracemalloc.start()
        try:
            how = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 31457280"
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" + how + b"\r\n\r\n")
            for _ in range(480):
                writer.write(b"10000\r\n" + piece + b"\r\n" if chunked else piece)
                await asyncio.wait_for(writer.drain(), 20)
            writer.write(b"0\r\n\r\n" if chunked else b"")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        head, said = await answer(reader)
        assert head.startswith(b"HTTP/1.1 413 ")
        assert "1048576 bytes" in said["detail"]
        assert peak < 10 * 2**20
        writer.close()
        assert (await served.post(content=b"abc")).json() == 3


async def test_ht_10_a_chunked_body_that_was_asked_for_and_grows_too_large(serving):
    async with serving(size) as served:
        reader, writer = await served.raw()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        for _ in range(64):
            writer.write(b"10000\r\n" + bytes(64 * 1024) + b"\r\n")
            await asyncio.wait_for(writer.drain(), 20)
        writer.write(b"0\r\n\r\n")
        assert (await answer(reader))[0].startswith(b"HTTP/1.1 413 ")
        writer.close()


async def test_a_small_refused_body_leaves_the_connection_open(serving):
    async with serving(echo) as served:
        reader, writer = await served.raw()
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n")
            await writer.drain()
            writer.write(b"hello")
            head, _ = await answer(reader)
            assert head.startswith(b"HTTP/1.1 415 ")
            assert b"connection: close" not in head
        writer.close()


@dataclass
class Labelled:
    image: bytes
    label: str
    scale: float = 1.0


async def test_multipart_fields_become_parameters(serving):
    @inference_function
    async def several(image: bytes, label: str, scale: float = 1.0, tags: list[str] | None = None) -> Any:
        return [len(image), label, scale, tags]

    @inference_function
    async def whole(sample: Labelled) -> Any:
        return [len(sample.image), sample.label, sample.scale]

    files = {"image": ("a.png", b"\x89PNG\xff", "image/png")}
    async with serving(several) as served:
        assert (await served.client.post("/", files=files, data={"label": "12"})).json() == [5, "12", 1.0, None]
        data = {"label": "x", "scale": "2.5", "tags": '["a", "b"]'}
        assert (await served.client.post("/", files=files, data=data)).json() == [5, "x", 2.5, ["a", "b"]]
        twice = {"label": "x", "tags": ["a", "b"]}
        assert (await served.client.post("/", files=files, data=twice)).json() == [5, "x", 1.0, ["a", "b"]]
        assert problem(await served.client.post("/", files=files), 422)["field"] == "$.label"
        assert problem(await served.client.post("/", files=files, data={"lable": "x"}), 422)["field"].startswith("$")
        mistyped = {"imgae": ("a.png", b"\x89PNG\xff", "image/png")}
        assert problem(await served.client.post("/", files=mistyped, data={"label": "x"}), 422)["field"] == "$.imgae"
        wrong = {"label": "x", "scale": "wide"}
        assert problem(await served.client.post("/", files=files, data=wrong), 422)["field"] == "$.scale"
        encoded = {"image": "iVBORw==", "label": "x"}
        assert (await served.post(encoded)).json() == [4, "x", 1.0, None]
    async with serving(whole) as served:
        assert (await served.client.post("/", files=files, data={"label": "12"})).json() == [5, "12", 1.0]
    async with serving(size) as served:
        assert (await served.client.post("/", files={"data": b"\x00" * 70_000})).json() == 70_000
        assert problem(await served.client.post("/", files={"image": b"1"}), 422)["field"].startswith("$")


async def test_broken_multipart_is_a_400_and_a_large_one_a_413(serving):
    kind = {"Content-Type": "multipart/form-data; boundary=XX"}
    head = b'--XX\r\nContent-Disposition: form-data; name="data"\r\n\r\n'
    async with serving(size) as served:
        for body in (b"", b"junk", head + b"abc", head + b"abc\r\n--XX", b"--XX\r\n\r\nabc\r\n--XX--\r\n"):
            problem(await served.post(content=body, headers=kind), 400)
        assert (await served.post(content=head + b"abc\r\n--XX--\r\n", headers=kind)).json() == 3
        problem(await served.client.post("/", files={"data": bytes(2**20)}), 413)
        many = {f"part{i}": b"" for i in range(1001)}
        problem(await served.client.post("/", files=many), 413)


async def test_a_gzipped_multipart_body(serving):
    body = b'--XX\r\nContent-Disposition: form-data; name="data"\r\n\r\nabc\r\n--XX--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=XX", "Content-Encoding": "gzip"}
    async with serving(size) as served:
        assert (await served.post(content=gzip.compress(body), headers=kind)).json() == 3


async def test_a_large_json_body_is_answered_and_let_go_as_any_is(serving):
    @inference_function(batching=Batching(max_batch_size=2, wait_ms=0))
    def total(xs: list[list[float]]) -> list[float]:
        return [sum(x) for x in xs]

    before = gc.get_threshold()
    async with serving(total) as served:
        numbers = [0.5] * 500_000
        assert (await served.post(numbers)).json() == 250_000
        assert (await served.post({"xs": numbers})).json() == 250_000
        assert problem(await served.post([*numbers, "a"]), 422)["field"] == "$[500000]"
        problem(await served.post(content=b"[" + b"0.5," * 500_000 + b"]"), 400)
        async with asyncio.timeout(30):
            while PutOff.num_users:
                await asyncio.sleep(0.001)
    assert gc.get_threshold() == before
