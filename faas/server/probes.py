"""What is not an endpoint: probes, metrics, the schema, the docs; and the answers to what is not there at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from faas import codec, metrics
from faas.runtime import Runtime
from faas.server import headers as stated
from faas.server import media
from faas.server.answer import Answer, Pair
from faas.server.body import Body
from faas.server.porter import KUBELET
from faas.server.problem import Problem

HOLD_S: Final = 0.8
"""How long a probe is held at most. The second in which the kubelet wants an answer has room for the way besides."""

_NO_STORE: Final = (b"cache-control", b"no-store")


class Page:
    """A resource that is only read: GET and HEAD answer, OPTIONS says so, everything else is a 405."""

    def __init__(self, answer: Callable[[], Answer], ids: stated.RequestIds) -> None:
        self._answer = answer
        self._others = Other(("GET", "HEAD", "OPTIONS"), ids)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as an ASGI application."""
        if scope["method"] not in ("GET", "HEAD"):
            await self._others(scope, receive, send)
            return
        await self._answer().send(send, _unread(scope, receive))


class Readiness(Page):
    """Whether calls are taken.

    A kubelet, and Knative in its name, asks once a second and not as soon as something changes. So while the instance
    starts its probe is held until it is ready, and nobody waits for the next one.
    """

    def __init__(self, runtime: Runtime, ids: stated.RequestIds) -> None:
        super().__init__(lambda: _readiness(runtime), ids)
        self._runtime = runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as an ASGI application."""
        if self._runtime.state == "starting" and _is_of_kubelet(scope):
            await self._runtime.started(HOLD_S)
        await super().__call__(scope, receive, send)


class Other:
    """What a path answers to methods that it has no use for. `allowed` are those it has; none means no such path."""

    def __init__(self, allowed: Sequence[str], ids: stated.RequestIds) -> None:
        self._allow = (b"allow", ", ".join(allowed).encode())
        self._allowed = allowed
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as an ASGI application."""
        if scope["type"] != "http":
            return
        body = _unread(scope, receive)
        if scope["method"] == "OPTIONS" and self._allowed:
            await Answer(204, (self._allow,)).send(send, body)
            return
        path = scope["path"]
        if self._allowed:
            problem = Problem.plain(405, f"{path} takes {', '.join(self._allowed)}, not {scope['method']}")
        else:
            problem = Problem.plain(404, f"there is nothing at {path}; /docs lists what there is")
        request_id = self._ids.of(dict(scope["headers"]).get(stated.REQUEST_ID))
        more = (self._allow,) if self._allowed else ()
        await Answer.telling(problem, request_id, *more).send(send, body)


def pages(runtime: Runtime, ids: stated.RequestIds, openapi: Callable[[], bytes], docs: bytes) -> dict[str, ASGIApp]:
    """Return everything that is not an endpoint, by path."""

    def live() -> Answer:
        return _state(200, {"live": True, "state": runtime.state})

    def measured() -> Answer:
        return Answer.of(metrics.CONTENT_TYPE, runtime.metrics.expose())

    answers: dict[str, Callable[[], Answer]] = {
        "/livez": live,
        "/healthz": lambda: _readiness(runtime),
        "/metrics": measured,
        "/openapi.json": lambda: Answer.of(media.JSON, openapi()),
        "/docs": lambda: Answer.of(b"text/html; charset=utf-8", docs),
    }
    return {"/readyz": Readiness(runtime, ids), **{path: Page(answer, ids) for path, answer in answers.items()}}


def _readiness(runtime: Runtime) -> Answer:
    said = {"ready": runtime.is_ready, "state": runtime.state, "reason": runtime.reason}
    if runtime.is_ready:
        return _state(200, said)
    return _state(503, said, (b"retry-after", b"1"))


def _is_of_kubelet(scope: Scope) -> bool:
    return any(name == b"user-agent" and value.startswith(KUBELET) for name, value in scope["headers"])


def _state(status: int, said: Mapping[str, object], *headers: Pair) -> Answer:
    return Answer.of(media.JSON, codec.encode(said), _NO_STORE, *headers, status=status)


def _unread(scope: Scope, receive: Receive) -> Body:
    return Body(receive, dict(scope["headers"]), 0)
