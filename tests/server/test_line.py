from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faas import Batching, Calls, Context, endpoint, inference_function
from faas.errors import SettingError
from faas.handler import Handler
from faas.runtime import Runtime
from faas.server.app import build
from tests.server.answers import problem

pytestmark = pytest.mark.anyio

SEEN_WITHIN_S = 1.0


class Pure:
    def __init__(self, app: ASGIApp, name: bytes = b"pure") -> None:
        self._app, self._name = app, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def named(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-by", self._name)]
            await send(message)

        await self._app(scope, receive, named)


class Based(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = await call_next(request)
        response.headers["x-by"] = "based"
        return response


class BodyReading(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        await request.body()
        return await call_next(request)


class Replaying:
    """Reads the body and then says nothing but that body, as much middleware that logs requests does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()

        async def replay() -> Message:
            await asyncio.sleep(0.01)
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)


STYLES = [(), (Pure,), (Based,), (BodyReading,), (Replaying,), (Based, Pure), (Pure, Replaying, BodyReading)]


async def hang_up_during(served: Any, path: bytes, begun: asyncio.Event, accept: bytes = b"*/*") -> None:
    reader, writer = await served.raw()
    head = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nAccept: " + accept + b"\r\nContent-Length: 2\r\n\r\n"
    writer.write(head + b"{}")
    await asyncio.wait_for(begun.wait(), 10)
    if accept != b"*/*":
        await reader.readuntil(b"data: ")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("style", STYLES, ids=lambda style: "+".join(s.__name__ for s in style) or "none")
async def test_ht_06_hang_up_is_seen_behind_any_middleware(serving, style):
    begun, ended = asyncio.Event(), asyncio.Event()
    in_thread, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @inference_function(middleware=style, calls=Calls(max_queue=0))
    class Long:
        @endpoint("/")
        async def wait(self) -> int:
            begun.set()
            try:
                await asyncio.sleep(30)
            finally:
                ended.set()
            return 1

        @endpoint("/stream")
        async def stream(self) -> AsyncIterator[int]:
            begun.set()
            try:
                while True:
                    yield 1
                    await asyncio.sleep(0.01)
            finally:
                ended.set()

        @endpoint("/plain")
        def plain(self, context: Context) -> int:
            loop.call_soon_threadsafe(in_thread.set)
            while not context.cancelled() and not may_end.wait(0.01):
                pass
            loop.call_soon_threadsafe(ended.set)
            return 1

    async with serving(Long) as served:
        for path, accept in ((b"/", b"*/*"), (b"/stream", b"text/event-stream"), (b"/stream", b"*/*")):
            begun.clear()
            ended.clear()
            await hang_up_during(served, path, begun, accept)
            await asyncio.wait_for(ended.wait(), SEEN_WITHIN_S)
        try:
            ended.clear()
            await hang_up_during(served, b"/plain", in_thread)
            await asyncio.wait_for(ended.wait(), SEEN_WITHIN_S)
        finally:
            may_end.set()
        while await served.value("faas_inflight"):
            await asyncio.sleep(0.01)
        assert await served.value("faas_requests_total", outcome="gone") == 4
        assert all(engine.num_running == 0 for engine in served.runtime.engines.values())


@pytest.mark.parametrize(
    "behind",
    [b"", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"],
    ids=["reading paused by a large body", "another request sent ahead"],
)
async def test_ht_06_hang_up_is_seen_whatever_was_sent(serving, behind):
    begun, ended = asyncio.Event(), asyncio.Event()

    @inference_function
    async def long(x: Any) -> int:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()
        return 1

    async with serving(long) as served:
        _, writer = await served.raw()
        text = b"{}" if behind else b'"%b"' % (b"x" * 300_000)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(text) + text + behind)
        await asyncio.wait_for(begun.wait(), 10)
        writer.close()
        await asyncio.wait_for(ended.wait(), SEEN_WITHIN_S)
        while await served.value("faas_inflight"):
            await asyncio.sleep(0.01)
        assert await served.value("faas_requests_total", outcome="gone") >= 1


@pytest.mark.parametrize("style", STYLES, ids=lambda style: "+".join(s.__name__ for s in style) or "none")
async def test_answers_pass_through_middleware(serving, style):
    @inference_function(middleware=style)
    async def slow(x: int) -> int:
        await asyncio.sleep(0.05)
        return x

    async with serving(slow) as served:
        assert [(await served.post(n)).json() for n in range(3)] == [0, 1, 2]
        problem(await served.post("x"), 422)
        assert (await served.client.get("/")).status_code == 405
        assert "x-by" not in (await served.client.get("/readyz")).headers


async def test_pages_of_other_sites_may_call_where_a_middleware_says_so(serving):
    sites = {"allow_origins": ["https://app.example"], "allow_methods": ["POST"]}

    @inference_function(middleware=[(CORSMiddleware, sites)])
    async def whole(x: int) -> int:
        return 6 // x

    origin = {"Origin": "https://app.example"}
    async with serving(whole) as served:
        asked = origin | {"Access-Control-Request-Method": "POST"}
        preflight = await served.client.request("OPTIONS", "/", headers=asked)
        answers = [await served.post(x, headers=origin) for x in (2, 0, "x")]
        assert [answer.status_code for answer in (preflight, *answers)] == [200, 200, 500, 422]
        for answer in (preflight, *answers):
            assert answer.headers["access-control-allow-origin"] == "https://app.example"


async def test_middleware_takes_keywords_and_refuses_what_is_none(serving):
    @inference_function(middleware=[(Pure, {"name": b"first"}), (Pure, {"name": b"second"})])
    async def one() -> int:
        return 1

    async with serving(one) as served:
        response = await served.client.post("/")
        assert response.headers.get_list("x-by") == ["second", "first"], "the first one stands outermost"

    @inference_function(middleware=[(Pure, 5)])  # type: ignore[list-item]
    async def two() -> int:
        return 1

    with pytest.raises(SettingError, match="middleware"):
        build(Runtime(two, Handler(two), version="1"))


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after it"])
async def test_middleware_that_fails_is_a_problem(serving, after, caplog):
    class Broken(BaseHTTPMiddleware):
        async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
            if after:
                await call_next(request)
            raise KeyError("user")

    @inference_function(middleware=[Broken])
    async def one() -> int:
        return 1

    async with serving(one) as served:
        for _ in range(2):
            response = await served.client.post("/", headers={"X-Request-Id": "mine"})
            assert problem(response, 500)["error"] == "KeyError"
            assert response.headers["x-request-id"] == "mine"
        assert "the middleware failed" in caplog.text


async def test_middleware_can_answer_by_itself(serving):
    class Guard(BaseHTTPMiddleware):
        async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
            if request.headers.get("authorization") != "Bearer t":
                return Response(status_code=401)
            return await call_next(request)

    @inference_function(middleware=[Guard])
    async def one() -> int:
        return 1

    async with serving(one) as served:
        assert (await served.client.post("/")).status_code == 401
        assert (await served.client.post("/", headers={"Authorization": "Bearer t"})).json() == 1
        assert (await served.client.get("/livez")).status_code == 200


@pytest.mark.parametrize("style", [(), (Based,)], ids=["no middleware", "middleware"])
@pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batches of one"])
async def test_a_caller_is_told_in_time_though_the_handler_swallows_its_cancellation(serving, batched, style):
    go = asyncio.Event()

    async def held() -> None:
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()

    async def alone(x: int) -> int:
        await held()
        return x

    async def together(x: list[int]) -> list[int]:
        await held()
        return x

    batching = Batching(max_batch_size=1) if batched else None
    function = inference_function(middleware=style, batching=batching)(together if batched else alone)
    async with serving(function) as served:
        try:
            late = await asyncio.wait_for(served.post(1, headers={"X-Request-Timeout-Ms": "100"}), SEEN_WITHIN_S + 10)
            problem(late, 504)
            assert (await served.client.get("/livez")).status_code == 200, "the connection goes on"
            engine = served.runtime.engines["/"]
            assert engine.num_running == 1, "its place stays taken"
        finally:
            go.set()
        while engine.num_running:
            await asyncio.sleep(0.001)
        assert (await served.post(2)).json() == 2
        assert await served.value("faas_requests_total", outcome="deadline") == 1


@pytest.mark.parametrize("style", [(), (Based,)], ids=["no middleware", "middleware"])
async def test_calls_whose_time_is_up_while_the_loop_is_held_up_are_told_once(serving, style):
    go = threading.Event()

    @inference_function(middleware=style, batching=Batching(max_batch_size=2))
    def slow(x: list[int]) -> list[int]:
        go.wait(30)
        return x

    async with serving(slow) as served:
        try:
            limit = {"X-Request-Timeout-Ms": "300"}
            calls = [asyncio.ensure_future(served.post(n, headers=limit)) for n in range(8)]
            engine = served.runtime.engines["/"]
            while not (engine.num_running and engine.num_running + engine.num_queued == 8):
                await asyncio.sleep(0.001)
            time.sleep(0.6)  # noqa: ASYNC251, as garbage, a large answer or a machine that is busy hold up a loop
            for answer in await asyncio.gather(*calls):
                problem(answer, 504)
        finally:
            go.set()
        assert await served.value("faas_requests_total", outcome="deadline") == 8
