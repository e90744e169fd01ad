from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response, StreamingResponse

from faas import Batching, Calls, Context, Scaling, inference_function
from faas.errors import PlatformError, RemoteError, SettingError
from tests.cli.platform import record, recorded
from tests.served import Answer, Seen, Served, serving


@dataclass
class Point:
    x: int
    y: int = 0


@inference_function
def move(point: Point) -> Point:
    return Point(point.x + 1, point.y)


@inference_function
def add(a: int, b: int = 10) -> int:
    return a + b


@inference_function(batching=Batching(max_batch_size=2), scaling=Scaling(max_instances=1))
def double(numbers: list[int]) -> list[int]:
    return [2 * n for n in numbers]


@inference_function
def size(content: bytes) -> int:
    return len(content)


@inference_function
def count(n: int, context: Context) -> Iterator[Point]:
    yield from (Point(i) for i in range(n))


Serve = Callable[[Answer], Served]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("FAAS_HOME", str(tmp_path))
    monkeypatch.delenv("FAAS_URL", raising=False)
    monkeypatch.delenv("FAAS_PLATFORM_SOCKET", raising=False)
    return tmp_path


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Serve answers, and let FAAS_URL say where."""
    open_ones: list[AbstractContextManager[Served]] = []

    def start(answer: Answer) -> Served:
        made = serving(answer)
        open_ones.append(made)
        served = made.__enter__()
        monkeypatch.setenv("FAAS_URL", served.url)
        return served

    yield start
    for made in open_ones:
        made.__exit__(None, None, None)


async def doubled(seen: Seen) -> Response:
    return JSONResponse(2 * json.loads(seen.body))


# Finding


def test_nowhere_to_be_found_is_an_error_that_says_so() -> None:
    with pytest.raises(PlatformError, match=r"add is served nowhere that can be found: .* FAAS_URL is not set"):
        add.remote(1)


def test_the_platform_that_a_process_runs_in_comes_first(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere = serve(doubled)

    async def inside(seen: Seen) -> Response:
        return JSONResponse(3 * json.loads(seen.body))

    with serving(inside, path=tmp_path / "s") as platform:
        monkeypatch.setenv("FAAS_PLATFORM_SOCKET", platform.url)
        assert double.remote(7) == 21
    assert [s.path for s in platform.seen] == ["/f/double/"]
    assert elsewhere.seen == []


def test_the_url_comes_before_the_platform_of_this_machine(serve: Serve, home: Path) -> None:
    served = serve(doubled)
    with recorded(home, url="http://127.0.0.1:1"):
        assert double.remote(7) == 14
    assert [s.path for s in served.seen] == ["/f/double/"]


def test_the_url_may_be_a_template(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve(doubled)
    monkeypatch.setenv("FAAS_URL", f"{served.url}/of/{{name}}")
    assert double.remote(7) == 14
    assert [s.path for s in served.seen] == ["/of/double/"]


def test_a_url_without_a_scheme_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAAS_URL", "localhost:8000")
    with pytest.raises(SettingError, match=r"FAAS_URL='localhost:8000': write a URL"):
        double.remote(1)


def test_the_platform_of_this_machine_is_found_by_its_record(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    served = serve(doubled)
    monkeypatch.delenv("FAAS_URL")
    with recorded(home, url=f"{served.url}/"):
        assert double.remote(7) == 14
    assert [s.path for s in served.seen] == ["/f/double/"]


def test_the_record_of_a_platform_that_has_ended_does_not_count(home: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    record(home, pid=ended.pid)
    with pytest.raises(PlatformError, match="no platform runs here"):
        double.remote(1)


def test_a_record_that_cannot_be_read_does_not_count(home: Path) -> None:
    (home / "run").mkdir()
    (home / "run" / "platform.json").write_text("{")
    with pytest.raises(PlatformError, match="no platform runs here"):
        double.remote(1)


# Calling


def test_an_object_goes_as_the_body_and_comes_back_as_its_type(serve: Serve) -> None:
    async def answer(seen: Seen) -> Response:
        body = json.loads(seen.body)
        return JSONResponse({"x": body["x"] + 1, "y": body["y"]})

    served = serve(answer)
    assert move.remote(Point(1, 2)) == Point(2, 2)
    assert move.remote(point=Point(5)) == Point(6, 0)
    assert [s.headers["content-type"] for s in served.seen] == ["application/json"] * 2


def test_several_parameters_go_by_name_with_their_defaults(serve: Serve) -> None:
    async def answer(seen: Seen) -> Response:
        return JSONResponse(sum(json.loads(seen.body).values()))

    served = serve(answer)
    assert add.remote(1) == 11
    assert add.remote(1, b=2) == 3
    assert json.loads(served.seen[0].body) == {"a": 1, "b": 10}


def test_bytes_go_as_they_are(serve: Serve) -> None:
    async def answer(seen: Seen) -> Response:
        return JSONResponse(len(seen.body))

    served = serve(answer)
    assert size.remote(b"\x00\xff") == 2
    assert served.seen[0].body == b"\x00\xff"
    assert served.seen[0].headers["content-type"] == "application/octet-stream"


def test_bytes_come_back_as_they_are(serve: Serve) -> None:
    async def answer(_: Seen) -> Response:
        return Response(b"\x00\xff", media_type="application/octet-stream")

    serve(answer)
    assert size.remote(b"") == b"\x00\xff"


def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(serve: Serve) -> None:
    served = serve(doubled)
    for call in (double.remote, double.spawn):
        with pytest.raises(TypeError, match="needs 'numbers'"):
            call()
    assert served.seen == []


def test_async_calls_run_on_the_callers_loop(serve: Serve) -> None:
    serve(doubled)
    names = {t.name for t in threading.enumerate()}

    async def use() -> list[int]:
        return [await double.aremote(1), await double.aremote(2)]

    assert asyncio.run(use()) == [2, 4]
    assert asyncio.run(use()) == [2, 4]  # another loop, whose predecessor's connections are closed
    assert {t.name for t in threading.enumerate()} == names


def test_k8_03_a_proxy_of_the_environment_is_no_way_to_this_machine(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(doubled)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert double.remote(7) == 14


def test_calls_share_a_connection(serve: Serve) -> None:
    served = serve(doubled)
    for _ in range(3):
        double.remote(1)
    ports = {s.request.client.port for s in served.seen if s.request.client is not None}
    assert len(ports) == 1


def test_calls_from_many_threads_are_answered_each_with_its_own(serve: Serve) -> None:
    serve(doubled)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(double.remote, range(40))) == [2 * n for n in range(40)]


def test_a_forked_child_calls_on_a_loop_of_its_own(serve: Serve) -> None:
    serve(doubled)
    assert double.remote(1) == 2
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if double.remote(4) == 8 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_program_that_calls_ends_cleanly(serve: Serve, tmp_path: Path) -> None:
    async def slow(seen: Seen) -> Response:
        if json.loads(seen.body) == 99:
            await asyncio.Event().wait()
        return await doubled(seen)

    served = serve(slow)
    (tmp_path / "program.py").write_text(
        "from faas import inference_function\n"
        "@inference_function\n"
        "def double(n: int) -> int: ...\n"
        "print(double.remote(4))\n"
        "kept = double.spawn(99)\n"
    )
    found = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "FAAS_URL": served.url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "8\n", "")


# Errors


def test_an_error_keeps_its_status_and_its_reason(serve: Serve) -> None:
    async def answer(_: Seen) -> Response:
        problem = {"type": "x", "status": 422, "detail": "Expected `int`", "field": "$.numbers"}
        return JSONResponse(problem, 422, media_type="application/problem+json")

    serve(answer)
    with pytest.raises(RemoteError, match=r"double answered 422: Expected `int` \(at \$\.numbers\)") as caught:
        double.remote(1)
    assert caught.value.status == 422
    assert caught.value.problem["field"] == "$.numbers"


@pytest.mark.parametrize(
    ("content", "said"), [(b"no such page", "no such page"), (b"", "Not Found"), (b"[1]", r"\[1\]"), (b"\xff", "�")]
)
def test_an_error_of_another_server_is_told_too(serve: Serve, content: bytes, said: str) -> None:
    async def answer(_: Seen) -> Response:
        return Response(content, 404)

    serve(answer)
    with pytest.raises(RemoteError, match=f"double answered 404: {said}") as caught:
        double.remote(1)
    assert caught.value.problem == {}


def test_an_answer_of_another_type_than_the_signatures_is_an_error(serve: Serve) -> None:
    async def answer(_: Seen) -> Response:
        return JSONResponse("text")

    serve(answer)
    with pytest.raises(RemoteError, match="double answered what its signature does not say: Expected `int`, got `str`"):
        double.remote(1)


def test_where_nobody_answers_is_an_error_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAAS_URL", "http://127.0.0.1:1")
    with pytest.raises(PlatformError, match=r"double cannot be called: nothing answers at http://127\.0\.0\.1:1/f/d"):
        double.remote(1)


def test_an_answer_that_breaks_off_says_that_the_call_may_have_run(serve: Serve) -> None:
    async def answer(_: Seen) -> Response:
        return Response(b"1", headers={"content-length": "5"})

    serve(answer)
    with pytest.raises(PlatformError, match=r"broke before double had answered .* it may have run"):
        double.remote(1)


# Time


def test_the_time_of_a_call_is_sent_and_can_be_set(serve: Serve) -> None:
    served = serve(doubled)
    double.remote(1)
    double.with_options(calls=Calls(timeout_s=2.5)).remote(1)
    sent = [int(s.headers["x-request-timeout-ms"]) for s in served.seen]
    assert 50_000 < sent[0] <= 60_000
    assert 1_500 < sent[1] <= 2_500


def test_a_call_that_is_not_answered_in_its_time_ends_as_504(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faas.client._SLACK_S", 0.0)

    async def never(_: Seen) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    serve(never)
    with pytest.raises(RemoteError, match=r"double gave no answer within 0\.2 s") as caught:
        double.with_options(calls=Calls(timeout_s=0.2)).remote(1)
    assert caught.value.status == 504


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_is_tried_again_as_the_server_says(serve: Serve, status: int) -> None:
    async def answer(seen: Seen) -> Response:
        if len(served.seen) < 3:
            return Response(b"later", status, headers={"retry-after": "0"})
        return await doubled(seen)

    served = serve(answer)
    assert double.remote(4) == 8
    assert len(served.seen) == 3


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (503, {}),
        (503, {"retry-after": "3600"}),
        (429, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}),
        (500, {"retry-after": "0"}),
        (404, {"retry-after": "0"}),
    ],
)
def test_nothing_else_is_tried_again(serve: Serve, status: int, headers: dict[str, str]) -> None:
    async def answer(_: Seen) -> Response:
        return Response(b"no", status, headers=headers)

    served = serve(answer)
    with pytest.raises(RemoteError) as caught:
        double.remote(1)
    assert caught.value.status == status
    assert len(served.seen) == 1


def test_trying_again_has_an_end(serve: Serve) -> None:
    async def answer(_: Seen) -> Response:
        return Response(b"no", 503, headers={"retry-after": "0"})

    served = serve(answer)
    with pytest.raises(RemoteError):
        double.remote(1)
    assert len(served.seen) == 5


# Starting, mapping


def test_a_spawned_call_is_got_later(serve: Serve) -> None:
    release = threading.Event()

    async def answer(seen: Seen) -> Response:
        await asyncio.to_thread(release.wait)
        return await doubled(seen)

    serve(answer)
    spawned = double.spawn(4)
    assert not spawned.done()
    with pytest.raises(TimeoutError):
        spawned.get(timeout_s=0.01)
    release.set()
    assert spawned.get(timeout_s=30) == 8
    assert spawned.done()
    assert not spawned.cancel()


def test_a_spawned_call_that_is_cancelled_hangs_up(serve: Serve) -> None:
    arrived, left = threading.Event(), threading.Event()

    async def answer(seen: Seen) -> Response:
        arrived.set()
        while not await seen.request.is_disconnected():
            await asyncio.sleep(0.01)
        left.set()
        return Response()

    serve(answer)
    spawned = double.spawn(4)
    assert arrived.wait(30)
    assert spawned.cancel()
    assert left.wait(30)
    with pytest.raises(concurrent.futures.CancelledError):
        spawned.get()


def test_a_spawned_calls_error_is_raised_where_it_is_got(serve: Serve) -> None:
    async def answer(_: Seen) -> Response:
        return Response(b"no", 500)

    serve(answer)
    with pytest.raises(RemoteError, match="double answered 500: no"):
        double.spawn(1).get()


def test_map_keeps_the_order_and_bounds_how_many_are_in_flight(serve: Serve) -> None:
    now, most = 0, 0

    async def answer(seen: Seen) -> Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02 if json.loads(seen.body) % 2 else 0)
        now -= 1
        return await doubled(seen)

    serve(answer)
    assert double.map(range(20)) == [2 * n for n in range(20)]
    assert 1 < most <= 4  # one instance holds two batches of two
    assert double.map([]) == []


def test_map_takes_inputs_that_are_calls_themselves(serve: Serve) -> None:
    serve(doubled)
    assert double.map(double.remote(n) for n in range(5)) == [4 * n for n in range(5)]


def test_amap_is_the_same_on_the_callers_loop(serve: Serve) -> None:
    serve(doubled)
    assert asyncio.run(double.amap(range(5))) == [2 * n for n in range(5)]


def test_the_first_error_of_map_cancels_the_rest_and_is_raised(serve: Serve) -> None:
    async def answer(seen: Seen) -> Response:
        if json.loads(seen.body) == 1:
            return Response(b"no", 500)
        await asyncio.Event().wait()
        raise AssertionError

    served = serve(answer)
    with pytest.raises(RemoteError, match="double answered 500: no"):
        double.map(range(100))
    assert len(served.seen) <= 4


# Streams


def lines(*events: str, then: str = "") -> Callable[[Seen], Any]:
    async def body() -> AsyncIterator[str]:
        for event in events:
            yield event
        if then == "break":
            raise ConnectionError

    async def answer(_: Seen) -> Response:
        return StreamingResponse(body(), media_type="text/event-stream")

    return answer


def test_a_stream_is_an_iterator_of_the_events_type(serve: Serve) -> None:
    served = serve(lines('data: {"x":0,', '"y":0}\n\ndata: {"x":1,"y":0}\n', "\n"))
    assert list(count.remote(2)) == [Point(0), Point(1)]
    assert served.seen[0].headers["accept"] == "text/event-stream"
    assert json.loads(served.seen[0].body) == 2


def test_a_stream_is_an_asynchronous_iterator(serve: Serve) -> None:
    serve(lines('data: {"x":0}\n\n', 'data: {"x":1}\n\n'))

    async def use() -> list[Point]:
        return [event async for event in await count.aremote(2)]

    assert asyncio.run(use()) == [Point(0), Point(1)]


def test_a_stream_that_is_spawned_or_mapped_is_a_list(serve: Serve) -> None:
    serve(lines('data: {"x":0}\n\n', 'data: {"x":1}\n\n'))
    assert count.spawn(2).get() == [Point(0), Point(1)]
    assert count.map([2]) == [[Point(0), Point(1)]]


def test_events_come_one_by_one(serve: Serve) -> None:
    first = threading.Event()

    async def body() -> AsyncIterator[str]:
        yield 'data: {"x":0}\n\n'
        await asyncio.to_thread(first.wait, 30)
        yield 'data: {"x":1}\n\n'

    async def answer(_: Seen) -> Response:
        return StreamingResponse(body(), media_type="text/event-stream")

    serve(answer)
    events = count.remote(2)
    assert next(events) == Point(0)
    first.set()
    assert list(events) == [Point(1)]


def test_a_stream_that_fails_gives_what_came_and_then_the_error(serve: Serve) -> None:
    serve(lines('data: {"x":0}\n\n', 'event: error\ndata: {"status": 422, "detail": "bad item"}\n\n'))
    events = count.remote(2)
    assert next(events) == Point(0)
    with pytest.raises(RemoteError, match="count failed with 422: bad item") as caught:
        next(events)
    assert caught.value.status == 422


def test_a_stream_that_breaks_off_is_an_error(serve: Serve) -> None:
    serve(lines('data: {"x":0}\n\n', then="break"))
    events = count.remote(2)
    assert next(events) == Point(0)
    with pytest.raises(PlatformError, match="broke before count had answered"):
        next(events)


def test_a_stream_that_is_refused_is_an_error_at_its_first_event(serve: Serve) -> None:
    async def answer(_: Seen) -> Response:
        return Response(b"no", 500)

    serve(answer)
    with pytest.raises(RemoteError, match="count answered 500: no"):
        next(count.remote(2))


def test_a_stream_that_is_left_hangs_up(serve: Serve) -> None:
    left = threading.Event()

    async def body() -> AsyncIterator[str]:
        try:
            yield 'data: {"x":0}\n\n'
            await asyncio.Event().wait()
        finally:
            left.set()

    async def answer(_: Seen) -> Response:
        return StreamingResponse(body(), media_type="text/event-stream")

    serve(answer)
    events = count.remote(2)
    next(events)
    events.close()
    assert left.wait(30)


def test_a_stream_has_its_time_while_it_is_waited_for(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faas.client._SLACK_S", 0.0)

    async def body() -> AsyncIterator[str]:
        yield 'data: {"x":0}\n\n'
        await asyncio.Event().wait()

    async def answer(_: Seen) -> Response:
        return StreamingResponse(body(), media_type="text/event-stream")

    serve(answer)
    events = count.with_options(calls=Calls(timeout_s=0.5)).remote(2)
    assert next(events) == Point(0)
    with pytest.raises(RemoteError, match=r"count gave no answer within 0\.5 s"):
        next(events)
