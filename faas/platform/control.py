"""The platform's control interface: HTTP and JSON on a Unix socket that only its owner may open.

    GET    /functions               every function        POST   /functions/NAME/scale      {"instances": n}
    GET    /functions/NAME          all of one            POST   /functions/NAME/traffic    {"percents", "tags"}
    DELETE /functions/NAME          take it away          POST   /functions/NAME/rollback   {"to": revision or null}
    GET    /functions/NAME/logs     JSON lines            POST   /deploy                    {"target", ...}, an `Order`
    GET    /instances               every instance        POST   /shutdown
    /functions/NAME/versions..., /v2/repository...        versions, see `versions_control`
    /functions/NAME/counts                                what a trial is judged by, see `counted`

`/deploy` answers with JSON lines: `{"step": text}` while it works, with `"ongoing": true` where that is said again of a
step that goes on, and in the end an `Outcome`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from faas.errors import FaasError, PlatformError
from faas.platform.gate import Gate
from faas.platform.local_server import LocalServer
from faas.platform.logs import LogFile
from faas.platform.orders import Order, Outcome
from faas.platform.revisions import UnknownRevision
from faas.slow_steps import Ongoing

LINES: Final = "application/x-ndjson"

T = TypeVar("T")


class UnknownFunction(PlatformError):
    """The platform has no function of that name."""


class Controlled(Protocol):
    """What the control interface can ask of a platform."""

    def functions(self) -> list[dict[str, Any]]:
        """Return what is known of each function."""
        ...

    def instances(self) -> list[dict[str, Any]]:
        """Return what is known of each instance."""
        ...

    def log(self, name: str) -> LogFile:
        """Return a function's log. Raises UnknownFunction."""
        ...

    async def scale(self, name: str, num_instances: int) -> dict[str, Any]:
        """Bring a function to a number of instances, and return what is known of it then. Raises UnknownFunction."""
        ...

    def function(self, name: str) -> dict[str, Any]:
        """Return all that is known of one function. Raises UnknownFunction."""
        ...

    async def deploy(self, order: Order, progress: Callable[[str], None]) -> Outcome:
        """Deploy the functions of a target. Raises TargetError, PlatformError."""
        ...

    async def share(self, name: str, percents: dict[str, int], tags: dict[str, str | None]) -> dict[str, Any]:
        """Share a function's calls and set its tags. Raises UnknownFunction, PlatformError."""
        ...

    async def roll_back(self, name: str, to: str | None) -> dict[str, Any]:
        """Go back to the revision before, or to one. Raises UnknownFunction, PlatformError."""
        ...

    async def delete(self, name: str) -> None:
        """Take a function away; returns when its calls are answered. Raises UnknownFunction."""
        ...

    def shut_down(self) -> None:
        """Begin to end the platform."""
        ...


class _Scale(msgspec.Struct, forbid_unknown_fields=True):
    instances: int


class _Traffic(msgspec.Struct, forbid_unknown_fields=True):
    percents: dict[str, int] = {}
    tags: dict[str, str | None] = {}


class _Rollback(msgspec.Struct, forbid_unknown_fields=True):
    to: str | None = None


class _BadBody(PlatformError):
    """A request's body is not what its route takes."""


def build(platform: Controlled, more: Sequence[Route] = ()) -> Starlette:
    """Return the control interface of `platform` as an application, with `more` routes."""
    asked = _Asked(platform)
    routes = [
        Route("/functions", asked.functions),
        Route("/instances", asked.instances),
        Route("/functions/{name}", asked.function, methods=["GET"]),
        Route("/functions/{name}", asked.delete, methods=["DELETE"]),
        Route("/functions/{name}/scale", asked.scale, methods=["POST"]),
        Route("/functions/{name}/traffic", asked.traffic, methods=["POST"]),
        Route("/functions/{name}/rollback", asked.rollback, methods=["POST"]),
        Route("/deploy", asked.deploy, methods=["POST"]),
        Route("/functions/{name}/logs", asked.log),
        Route("/shutdown", asked.shut_down, methods=["POST"]),
        *more,
    ]
    return Starlette(routes=routes, exception_handlers={FaasError: _failed})


class _Asked:
    """What a platform is asked, as requests and answers: one method a route."""

    def __init__(self, platform: Controlled) -> None:
        self._platform = platform

    async def functions(self, _: Request) -> Response:
        return json_answer(self._platform.functions())

    async def function(self, request: Request) -> Response:
        return json_answer(self._platform.function(request.path_params["name"]))

    async def delete(self, request: Request) -> Response:
        await self._platform.delete(request.path_params["name"])
        return json_answer({"deleted": request.path_params["name"]})

    async def instances(self, _: Request) -> Response:
        return json_answer(self._platform.instances())

    async def scale(self, request: Request) -> Response:
        wanted = (await _body(request, _Scale)).instances
        if wanted < 0:
            raise _BadBody(f"instances={wanted}: a function has 0 or more")
        return json_answer(await self._platform.scale(request.path_params["name"], wanted))

    async def traffic(self, request: Request) -> Response:
        wanted = await _body(request, _Traffic)
        return json_answer(await self._platform.share(request.path_params["name"], wanted.percents, wanted.tags))

    async def rollback(self, request: Request) -> Response:
        wanted = await _body(request, _Rollback)
        return json_answer(await self._platform.roll_back(request.path_params["name"], wanted.to))

    async def deploy(self, request: Request) -> Response:
        order = await _body(request, Order)
        return StreamingResponse(_deploying(self._platform, order), media_type=LINES)

    async def shut_down(self, _: Request) -> Response:
        self._platform.shut_down()
        return json_answer({"stopping": True})

    async def log(self, request: Request) -> Response:
        file = self._platform.log(request.path_params["name"])
        try:
            num_lines = max(0, int(request.query_params.get("lines", "100")))
        except ValueError:
            return _problem(400, "lines must be a whole number")
        follow = request.query_params.get("follow", "0") not in ("", "0", "false")
        return StreamingResponse(_lines(file, num_lines, follow), media_type=LINES)


async def _lines(file: LogFile, num_lines: int, follow: bool) -> AsyncIterator[bytes]:
    if not follow:
        for line in file.last(num_lines):
            yield msgspec.json.encode(line) + b"\n"
        return
    async for line in file.follow(num_lines):
        yield msgspec.json.encode(line) + b"\n"


async def _deploying(platform: Controlled, order: Order) -> AsyncIterator[bytes]:
    """Tell the steps of a deployment as they begin, and its outcome; it is given up when nobody listens any more."""
    steps: asyncio.Queue[str | None] = asyncio.Queue()
    work = asyncio.ensure_future(platform.deploy(order, steps.put_nowait))
    work.add_done_callback(lambda _: steps.put_nowait(None))
    try:
        while (step := await steps.get()) is not None:
            said: dict[str, Any] = {"step": str(step)}
            if isinstance(step, Ongoing):
                said["ongoing"] = True
            yield msgspec.json.encode(said) + b"\n"
        yield msgspec.json.encode(_outcome(work)) + b"\n"
    finally:
        work.cancel()


def _outcome(work: asyncio.Future[Outcome]) -> Outcome:
    try:
        return work.result()
    except FaasError as error:
        return Outcome(error=type(error).__name__, detail=str(error))


async def _body(request: Request, kind: type[T]) -> T:
    """Return the body as what a route takes. Raises _BadBody."""
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except msgspec.MsgspecError as error:
        fields = ", ".join(field.encode_name for field in msgspec.structs.fields(kind))  # type: ignore[arg-type]
        raise _BadBody(f"send a JSON object with {fields}: {error}") from None


async def _failed(_: Request, error: Exception) -> Response:
    statuses: dict[type[Exception], int] = {UnknownFunction: 404, UnknownRevision: 404, _BadBody: 400}
    return _problem(statuses.get(type(error), 409), str(error))


def _problem(status: int, detail: str) -> Response:
    body = {"type": "about:blank", "status": status, "detail": detail}
    return Response(msgspec.json.encode(body), status, media_type="application/problem+json")


def json_answer(value: Any) -> Response:
    """Answer with a value as JSON."""
    return Response(msgspec.json.encode(value), media_type="application/json")


class ControlServer(LocalServer):
    """Serves the control interface of a platform on the Unix socket `path`. Raises what `LocalServer` raises.

    With a token only requests that carry it are answered: then others may be let through to the socket.
    """

    def __init__(
        self, platform: Controlled, path: Path, *, token: str | None = None, more: Sequence[Route] = ()
    ) -> None:
        app: ASGIApp = build(platform, more)
        super().__init__(app if token is None else Gate(app, token), path)
