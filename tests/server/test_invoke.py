from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from faas import BadInput, Batching, Calls, Context, endpoint, inference_function
from tests.server.answers import echo, problem, strict_json

pytestmark = pytest.mark.anyio


@dataclass
class Point:
    x: int
    y: int = 0


async def test_one_item_in_one_answer_out_with_every_header(serving):
    @inference_function
    def area(point: Point) -> int:
        return point.x * point.y

    async with serving(area) as served:
        for path in ("/", "/predict"):
            response = await served.post({"x": 6, "y": 7}, path)
            assert response.status_code == 200
            assert response.json() == 42
            assert response.headers["content-type"] == "application/json"
            assert response.headers["x-instance-id"] == "i-1"
            assert response.headers["x-model-version"] == "7"
            assert response.headers["x-batch-size"] == "1"
            assert response.headers["x-cold-start"] == "0"
            parts = [part.split(";dur=") for part in response.headers["server-timing"].split(", ")]
            assert [name for name, _ in parts] == ["queue", "batch", "exec"]
            assert all(0 <= float(ms) < 10_000 for _, ms in parts)


async def test_request_ids_are_kept_made_and_never_let_anything_in(serving):
    async with serving(echo) as served:
        kept = await served.post(1, headers={"X-Request-Id": "a-B_3:x/9"})
        assert kept.headers["x-request-id"] == "a-B_3:x/9"
        made = {(await served.post(1)).headers["x-request-id"] for _ in range(3)}
        assert len(made) == 3
        for bad in ("a b", "x" * 129, 'q"', "a;b", ""):
            response = await served.post(1, headers={"X-Request-Id": bad})
            assert response.headers["x-request-id"] not in {bad, *made}


async def test_a_field_that_does_not_fit_is_named(serving):
    @inference_function
    def area(point: Point) -> int:
        return point.x

    async with serving(area) as served:
        assert problem(await served.post({"x": "six"}), 422)["field"] == "$.x"
        assert problem(await served.post({"x": 6, "z": 1}), 422)["field"] == "$.z"
        assert "field" not in problem(await served.post(content=b"{x"), 400)


async def test_ba_01_one_bad_item_of_four(serving):
    @inference_function(batching=Batching(max_batch_size=4, wait_ms=200, idle="wait"))
    def half(values: list[int]) -> list[Any]:
        return [ValueError(f"{v} is odd") if v % 2 else object() if v == 100 else v // 2 for v in values]

    async with serving(half) as served:
        for bad, status, said in (("bad", 422, "Expected `int`"), (3, 422, "3 is odd"), (100, 500, "object")):
            answers = await asyncio.gather(*(served.post(v) for v in (2, 4, bad, 8)))
            assert [a.status_code for a in answers] == [200, 200, status, 200]
            assert [a.json() for a in answers if a.status_code == 200] == [1, 2, 4]
            assert said in problem(answers[2], status)["detail"]
        assert {a.headers["x-batch-size"] for a in answers} == {"4"}


async def test_ba_01_a_raise_for_the_whole_batch_fails_its_item_alone(serving):
    @inference_function(batching=Batching(max_batch_size=4, wait_ms=200, idle="wait"))
    def invert(values: list[int]) -> list[float]:
        return [1 / v for v in values]

    async with serving(invert) as served:
        answers = await asyncio.gather(*(served.post(v) for v in (1, 2, 0, 4)))
        assert [a.status_code for a in answers] == [200, 200, 500, 200]
        assert problem(answers[2], 500)["error"] == "ZeroDivisionError"


async def test_errors_of_the_handler(serving, caplog):
    @inference_function
    def fails(kind: str) -> Any:
        if kind == "returned":
            return ValueError("no such colour")
        raise {"bad": BadInput("too dark"), "value": ValueError("oh"), "key": KeyError("k")}[kind]

    async with serving(fails) as served:
        assert "too dark" in problem(await served.post("bad"), 422)["detail"]
        with caplog.at_level(logging.ERROR):
            said = problem(await served.post("value"), 500)
        assert said["detail"] == "ValueError: oh"
        assert "traceback" not in said
        assert "raise {" in caplog.text, "the log has the traceback"


async def test_debug_shows_the_traceback(serving):
    @inference_function
    async def fails() -> None:
        raise RuntimeError("inside")

    async with serving(fails, runtime={"debug": True}) as served:
        said = problem(await served.client.post("/"), 500)
        assert any("inside" in line for line in said["traceback"])


async def test_ht_01_nan_and_infinity_are_null_out_and_refused_in(serving):
    @inference_function(batching=Batching(max_batch_size=2))
    def odd(names: list[str]) -> list[Any]:
        plain = {"a": [1.0, math.nan], "b": math.inf}
        arrays = {"a": np.array([1.0, np.nan], dtype="float32"), "b": np.float64("-inf")}
        return [{"plain": plain, "arrays": arrays}[name] for name in names]

    async with serving(odd) as served:
        for name in ("plain", "arrays"):
            response = await served.post(name)
            assert response.status_code == 200
            assert strict_json(response.content) == {"a": [1.0, None], "b": None}
    async with serving(echo) as served:
        problem(await served.post(content=b'{"x": NaN}'), 400)
        problem(await served.post(content=b'{"x": 1e999}'), 422)


async def test_ht_02_lone_surrogates_never_reach_the_encoder_unnoticed(serving):
    @inference_function
    async def say(x: str) -> Any:
        if x == "made":
            return {"\ud83d": "\ud83d"}
        raise ValueError(f"what is {chr(0xD83D)}?")

    async with serving(echo) as served:
        for body in (b'{"x":"\\ud83d"}', b'{"\\ud83d": 1}', b'{"x":"\xed\xa0\xbd"}'):
            problem(await served.post(content=body), 400)
    async with serving(say) as served:
        made = await served.post("made")
        assert made.status_code == 200
        assert strict_json(made.content) == {"\ufffd": "\ufffd"}
        assert "\ufffd" in problem(await served.post("other"), 500)["detail"]


async def test_kn_09_time_out_of_a_call_and_of_a_stream(serving):
    release = asyncio.Event()

    @inference_function(calls=Calls(timeout_s=0.3))
    class Slow:
        @endpoint("/")
        async def once(self) -> int:
            await release.wait()
            return 1

        @endpoint("/stream")
        async def many(self) -> AsyncIterator[int]:
            for number in range(100):
                yield number
                await asyncio.sleep(0.05)

    async with serving(Slow) as served:
        assert problem(await served.client.post("/"), 504)["type"].endswith("deadline-exceeded")
        streamed = await served.client.post("/stream", headers={"Accept": "text/event-stream"})
        assert streamed.status_code == 200
        *events, last = streamed.text.strip().split("\n\n")
        assert events[0] == "data: 0"
        kind, data = last.split("\n")
        assert kind == "event: error"
        assert json.loads(data.removeprefix("data: "))["status"] == 504


async def test_the_slot_stays_taken_until_a_blocking_handler_ends(serving):
    import threading

    entered, release = threading.Event(), threading.Event()

    @inference_function(calls=Calls(timeout_s=0.2, max_queue=0))
    def blocks(x: int) -> int:
        entered.set()
        release.wait(20)
        return x

    async with serving(blocks) as served:
        try:
            problem(await served.post(1), 504)
            assert entered.is_set()
            full = problem(await served.post(2), 429)
            assert full["type"].endswith("queue-full")
            assert (await served.client.get("/livez")).status_code == 200
        finally:
            release.set()


async def test_callers_tighten_the_deadline_and_state_it_right(serving):
    @inference_function
    async def left(context: Context) -> float:
        if context.remaining_s() < 1:
            await asyncio.sleep(10)
        return context.remaining_s()

    async with serving(left) as served:
        assert (await served.client.post("/")).json() > 50
        assert (await served.client.post("/", headers={"X-Request-Timeout-Ms": "5000"})).json() <= 5
        assert (await served.client.post("/", headers={"X-Request-Timeout-Ms": "90000000"})).json() <= 60
        problem(await served.client.post("/", headers={"X-Request-Timeout-Ms": "50"}), 504)
        for bad in ("soon", "-1", "0", "nan", "inf", ""):
            problem(await served.client.post("/", headers={"X-Request-Timeout-Ms": bad}), 400)
        for bad in ("high", "0", "-1", "1.5", ""):
            problem(await served.client.post("/", headers={"X-Priority": bad}), 400)
        assert (await served.client.post("/", headers={"X-Priority": "3"})).status_code == 200


async def test_context_has_headers_and_a_valid_trace(serving):
    @inference_function
    async def seen(context: Context) -> dict[str, str]:
        return dict(context.headers)

    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with serving(seen) as served:
        said = (await served.client.post("/", headers={"traceparent": trace, "X-Mine": "1"})).json()
        assert said["traceparent"] == trace
        assert said["x-mine"] == "1"
        for bad in ("00-1-2-3", f"ff{trace[2:]}", trace.replace("b7ad6b7169203331", "0" * 16), "x"):
            assert "traceparent" not in (await served.client.post("/", headers={"traceparent": bad})).json()


async def test_a_header_that_comes_several_times_is_one_list(serving):
    @inference_function
    async def seen(x: int, context: Context) -> dict[str, str]:
        return dict(context.headers)

    sent = [("X-Mine", "a"), ("X-Mine", "a"), ("X-Mine", "b"), ("Cookie", "c=1"), ("Cookie", "d=2")]
    json_type = ("Content-Type", "application/json")
    async with serving(seen) as served:
        said = (await served.client.post("/", content=b"1", headers=[*sent, json_type, json_type])).json()
        assert (said["x-mine"], said["cookie"]) == ("a, a, b", "c=1; d=2")
        other = ("Content-Type", "text/plain")
        assert (await served.client.post("/", content=b"1", headers=[json_type, other])).status_code == 415
        events = [("Accept", "text/event-stream"), ("Accept", "*/*")]
        assert (await served.client.post("/", content=b"1", headers=events)).text.startswith("data: ")


async def test_a_large_answer_is_written_as_any_is(serving):
    @inference_function(batching=Batching(max_batch_size=2))
    class Large:
        @endpoint("/lists")
        def lists(self, ns: list[int]) -> list[Any]:
            return [{"rows": [[math.nan, 0.5]] * n, "n": n} for n in ns]

        @endpoint("/arrays")
        def arrays(self, ns: list[int]) -> list[Any]:
            return [np.arange(float(n)).reshape(-1, 2) for n in ns]

        @endpoint("/events")
        def events(self, ns: list[int]) -> Iterator[list[Any]]:
            for number in range(3):
                yield [[number] * n for n in ns]

        @endpoint("/odd")
        def odd(self, ns: list[int]) -> list[Any]:
            return [[0] * n + [object()] for n in ns]

    async with serving(Large) as served:
        for n in (10, 100_000):
            lists, arrays, events = [await served.post(n, path) for path in ("/lists", "/arrays", "/events")]
            assert strict_json(lists.content) == {"rows": [[None, 0.5]] * n, "n": n}
            assert strict_json(arrays.content) == np.arange(float(n)).reshape(-1, 2).tolist()
            assert strict_json(events.content) == [[number] * n for number in range(3)]
            assert "no JSON form" in problem(await served.post(n, "/odd"), 500)["detail"]
            assert {one.headers["content-type"] for one in (lists, arrays, events)} == {"application/json"}


async def test_bytes_out_are_the_body(serving):
    @inference_function
    def reverse(data: bytes) -> bytes:
        return data[::-1]

    async with serving(reverse) as served:
        response = await served.post(content=b"\x00\xff")
        assert response.content == b"\xff\x00"
        assert response.headers["content-type"] == "application/octet-stream"


async def test_a_stream_as_events_as_an_array_and_with_an_error(serving):
    @inference_function
    def count(n: int) -> Iterator[dict[str, int]]:
        if n < 0:
            raise BadInput("negative")
        for i in range(n):
            if i == 3:
                raise RuntimeError("three")
            yield {"i": i}

    events = {"Accept": "text/event-stream"}
    async with serving(count) as served:
        response = await served.post(2, headers=events)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-batch-size"] == "1"
        assert response.headers["server-timing"].startswith("queue;dur=")
        assert response.text == 'data: {"i":0}\n\ndata: {"i":1}\n\n'
        assert (await served.post(2)).json() == [{"i": 0}, {"i": 1}]
        assert (await served.post(0)).json() == []
        assert (await served.post(0, headers=events)).text == ""
        problem(await served.post(-1, headers=events), 422)
        problem(await served.post(9), 500)
        broken = await served.post(9, headers=events)
        assert broken.status_code == 200
        *good, last = broken.text.strip().split("\n\n")
        assert len(good) == 3
        assert last.startswith("event: error\ndata: ")
        assert await served.value("faas_requests_total", outcome="error") == 2


async def test_an_event_without_a_json_form_ends_the_stream_with_an_error(serving):
    @inference_function
    def odd() -> Iterator[Any]:
        yield 1
        yield object()

    async with serving(odd) as served:
        streamed = await served.client.post("/", headers={"Accept": "text/event-stream"})
        assert streamed.text.startswith("data: 1\n\nevent: error\n")


async def test_a_plain_answer_is_a_stream_of_one(serving):
    async with serving(echo) as served:
        assert (await served.post(5, headers={"Accept": "text/event-stream"})).text == "data: 5\n\n"


async def test_several_endpoints_each_with_its_own_schema(serving):
    @inference_function
    class Two:
        def predict(self, x: int) -> int:
            return x + 1

        @endpoint("/twice")
        async def twice(self, x: int) -> int:
            return 2 * x

    async with serving(Two) as served:
        assert (await served.post(20)).json() == 21
        assert (await served.post(21, "/twice")).json() == 42
        assert problem(await served.client.post("/thrice"), 404)["detail"].startswith("there is nothing at /thrice")


async def test_a_cold_start_is_told_to_each_that_waited_for_it_and_counted_once(serving):
    cold = {"X-Faas-Cold": "1", "X-Faas-Activate-Ms": "12.5"}
    phases = {"fork": 0.006, "thaw": 0.02}
    async with serving(echo, phases=phases) as served:
        first = await served.post(1, headers=cold)
        assert first.headers["x-cold-start"] == "1"
        parts = dict(part.split(";dur=") for part in first.headers["server-timing"].split(", "))
        assert list(parts) == ["queue", "batch", "exec", "fork", "thaw", "activate"]
        assert (parts["fork"], parts["thaw"], parts["activate"]) == ("6.000", "20.000", "12.500")
        assert (await served.post(1, headers=cold)).headers["x-cold-start"] == "1"
        assert (await served.post(1)).headers["x-cold-start"] == "0"
        assert await served.value("faas_cold_starts_total") == 1
        assert await served.value("faas_cold_start_seconds", phase="thaw") == 0.02
    async with serving(echo) as served:
        assert (await served.post(1)).headers["x-cold-start"] == "0"
        assert await served.value("faas_cold_starts_total") == 0


async def test_outcomes_are_counted(serving):
    async with serving(echo) as served:
        await served.post(1)
        await served.post(content=b"{")
        assert await served.value("faas_requests_total", function="echo", version="7", outcome="ok") == 1
        assert await served.value("faas_requests_total", outcome="bad_input") == 1
        assert await served.value("faas_request_seconds_count") == 2
        assert await served.value("faas_batch_size_count") == 1
        assert await served.value("faas_inflight") == 0
        assert await served.value("faas_instances", state="ready") == 1
        assert await served.value("process_cpu_seconds_total") > 0
