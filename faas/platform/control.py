"""The platform's control interface: HTTP and JSON on a Unix socket that only its owner may open."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from faas.errors import FaasError, PlatformError
from faas.platform.logs import LogFile

MAX_SOCKET_PATH_BYTES = 100


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

    def shut_down(self) -> None:
        """Begin to end the platform."""
        ...


class _Scale(msgspec.Struct, forbid_unknown_fields=True):
    instances: int


def build(platform: Controlled) -> Starlette:
    """Return the control interface of `platform` as an application."""

    async def functions(_: Request) -> Response:
        return _json(platform.functions())

    async def instances(_: Request) -> Response:
        return _json(platform.instances())

    async def scale(request: Request) -> Response:
        try:
            wanted = msgspec.json.decode(await request.body(), type=_Scale).instances
        except msgspec.MsgspecError as error:
            return _problem(400, f'send {{"instances": n}}: {error}')
        if wanted < 0:
            return _problem(400, f"instances={wanted}: a function has 0 or more")
        return _json(await platform.scale(request.path_params["name"], wanted))

    async def shut_down(_: Request) -> Response:
        platform.shut_down()
        return _json({"stopping": True})

    async def log(request: Request) -> Response:
        file = platform.log(request.path_params["name"])
        try:
            num_lines = max(0, int(request.query_params.get("lines", "100")))
        except ValueError:
            return _problem(400, "lines must be a whole number")
        follow = request.query_params.get("follow", "0") not in ("", "0", "false")
        return StreamingResponse(_lines(file, num_lines, follow), media_type="application/x-ndjson")

    routes = [
        Route("/functions", functions),
        Route("/instances", instances),
        Route("/functions/{name}/scale", scale, methods=["POST"]),
        Route("/functions/{name}/logs", log),
        Route("/shutdown", shut_down, methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={FaasError: _failed})


async def _lines(file: LogFile, num_lines: int, follow: bool) -> AsyncIterator[bytes]:
    for line in file.last(num_lines):
        yield msgspec.json.encode(line) + b"\n"
    if follow:
        async for line in file.follow():
            yield msgspec.json.encode(line) + b"\n"


async def _failed(_: Request, error: Exception) -> Response:
    return _problem(404 if isinstance(error, UnknownFunction) else 409, str(error))


def _problem(status: int, detail: str) -> Response:
    body = {"type": "about:blank", "status": status, "detail": detail}
    return Response(msgspec.json.encode(body), status, media_type="application/problem+json")


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


class _Server(uvicorn.Server):
    """A server that leaves the process's signals to the platform."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


class ControlServer:
    """Serves a control interface on a Unix socket of mode 0600, which it makes and removes.

    Raises:
        PlatformError: the path is too long for a socket, or cannot be made one.
    """

    def __init__(self, platform: Controlled, path: Path) -> None:
        if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
            raise PlatformError(
                f"{path} is too long for a socket ({MAX_SOCKET_PATH_BYTES} bytes at most): "
                "set FAAS_HOME to a shorter path"
            )
        self._path = path
        self._socket = _private_socket(path)
        config = uvicorn.Config(build(platform), log_config=None, access_log=False, lifespan="off")
        config.timeout_graceful_shutdown = 1
        self._server = _Server(config)

    async def run(self) -> None:
        """Serve until `stop`."""
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._path.unlink(missing_ok=True)

    def stop(self) -> None:
        """Make `run` return; streams that are open are cut after a second."""
        self._server.should_exit = True


def _private_socket(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        made.bind(str(path))
        made.listen()
    except OSError as error:
        made.close()
        raise PlatformError(f"cannot make the control socket {path}: {error.strerror}; set FAAS_HOME") from None
    finally:
        os.umask(mask)
    return made
