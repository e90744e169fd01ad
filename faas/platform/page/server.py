"""The page's own small server: files that never change, and the stream of events, on a Unix socket.

The activator sends it what is asked for at `/-/`, and a browser's first `GET /`, as it sends calls to instances.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from faas.platform.breaker import Capacity
from faas.platform.endpoint import Endpoint
from faas.platform.local_server import LocalServer
from faas.platform.page.access import Access, Refusal
from faas.platform.page.events import Source, View, stream
from faas.platform.page.history import History
from faas.platform.page.meters import Meters

MAX_READERS = 64
_TYPES: Final = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript"}
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class PageServer:
    """Serves the page of a platform on the Unix socket `path`. `capacity` is where the activator finds it."""

    def __init__(self, source: Source, history: History, path: Path, access: Access) -> None:
        self.capacity = Capacity()
        self.capacity.add(Endpoint(str(path)))
        self._source = source
        self._history = history
        self._access = access
        self._meters = Meters(changed=history.tell)
        self._num_readers = 0
        self._is_ended = False
        routes = [Route("/", self._root), Route("/-/events", self._events)]
        for name, (content, kind) in _files().items():
            routes.append(Route("/-/" if name == "index.html" else f"/-/{name}", _file(content, kind)))
        routes.append(Route("/-/{rest:path}", _nothing))
        routes.append(Route("/-", lambda _: RedirectResponse("-/", headers=_HEADERS)))
        self._server = LocalServer(Starlette(routes=routes), path)

    async def run(self) -> None:
        """Serve until `stop`."""
        await self._server.run()

    def stop(self) -> None:
        """End the streams, and make `run` return."""
        self._is_ended = True
        self._history.tell()
        self._meters.cancel()
        self._server.stop()

    async def _root(self, request: Request) -> Response:
        """Redirect browsers to the page; other clients get the functions' paths."""
        vary = {"vary": "accept"}
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("-/", headers=_HEADERS | vary)
        paths = sorted(f"/f/{row['name']}/" for row in self._source.functions())
        return _json(200, {"functions": paths}, vary)

    async def _events(self, request: Request) -> Response:
        refusal = self._access.refusal(request.headers)
        if refusal is None and self._num_readers >= MAX_READERS:
            refusal = Refusal(503, f"{MAX_READERS} pages are open already: close one")
        if refusal is not None:
            challenge = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
            return _json(refusal.status, {"status": refusal.status, "detail": refusal.detail}, challenge)
        view = View(self._source, self._history, self._meters, request.query_params.get("function"))
        headers = _HEADERS | {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._stream(view), media_type="text/event-stream", headers=headers)

    async def _stream(self, view: View) -> AsyncIterator[bytes]:
        self._num_readers += 1
        try:
            async for events in stream(view, self._source, self._history, lambda: self._is_ended):
                yield events
        finally:
            self._num_readers -= 1


def _files() -> dict[str, tuple[bytes, str]]:
    """Return what the page consists of, by name, with its type."""
    folder = resources.files(__package__) / "static"
    return {
        entry.name: (entry.read_bytes(), _TYPES[Path(entry.name).suffix])
        for entry in folder.iterdir()
        if Path(entry.name).suffix in _TYPES
    }


def _file(content: bytes, kind: str) -> partial[Response]:
    tag = f'"{blake3(content).hexdigest()[:16]}"'
    return partial(_answer_file, content, _HEADERS | {"etag": tag, "cache-control": "no-cache", "content-type": kind})


def _answer_file(content: bytes, headers: Mapping[str, str], request: Request) -> Response:
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers)


async def _nothing(request: Request) -> Response:
    return _json(404, {"status": 404, "detail": f"nothing is at {request.url.path[:200]}; the page is at /-/"})


def _json(status: int, value: object, headers: Mapping[str, str] = {}) -> Response:
    body = msgspec.json.encode(value)
    kind = "application/json" if status < 400 else "application/problem+json"
    return Response(body, status, headers={**_HEADERS, "cache-control": "no-store", **headers}, media_type=kind)
