"""A server of this process's own on a Unix socket that only its owner may open."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from faas.errors import PlatformError

MAX_SOCKET_PATH_BYTES = 100


class _Server(uvicorn.Server):
    """A server that leaves the process's signals to the platform."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


class LocalServer:
    """Serves an application on a Unix socket of mode 0600, which it makes and removes.

    Raises:
        PlatformError: the path is too long for a socket, or cannot be made one.
    """

    def __init__(self, app: ASGIApp, path: Path) -> None:
        if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
            raise PlatformError(
                f"{path} is too long for a socket ({MAX_SOCKET_PATH_BYTES} bytes at most): "
                "set FAAS_HOME to a shorter path"
            )
        self._path = path
        self._socket = _private_socket(path)
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", server_header=False)
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
        raise PlatformError(f"cannot make the socket {path}: {error.strerror}; set FAAS_HOME") from None
    finally:
        os.umask(mask)
    return made
