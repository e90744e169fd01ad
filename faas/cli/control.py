"""The control interface of this machine's platform, as commands ask it."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from typing import Any

import msgspec

from faas import address, settings
from faas.address import Record
from faas.cli.failure import Failure
from faas.errors import PlatformError, RemoteError

_ANSWER_S = 60.0


class Control:
    """The platform of a record; of this machine, unless told.

    Raises:
        PlatformError: none runs here.
        Failure: it is coming up still, and cannot be asked.
    """

    def __init__(self, record: Record | None = None) -> None:
        self.record = record or _record()

    def get(self, path: str) -> Any:
        """Return what the platform says.

        Raises:
            RemoteError: it refuses; keeps the status.
            PlatformError: it does not answer.
        """
        with self._answer("GET", path, None, _ANSWER_S) as response:
            return msgspec.json.decode(response.read())

    def post(self, path: str, value: Any = None, *, timeout_s: float | None = _ANSWER_S) -> Any:
        """Tell the platform something; returns what it says. Raises what `get` raises."""
        with self._answer("POST", path, value, timeout_s) as response:
            return msgspec.json.decode(response.read())

    def delete(self, path: str) -> Any:
        """Take something away, however long it takes; returns what the platform says. Raises what `get` raises."""
        with self._answer("DELETE", path, None, None) as response:
            return msgspec.json.decode(response.read())

    def lines(self, path: str, value: Any = None) -> Iterator[bytes]:
        """Yield the lines of an answer as they come, to a POST where there is a value. Raises what `get` raises."""
        with self._answer("GET" if value is None else "POST", path, value, None) as response:
            yield from response

    @contextlib.contextmanager
    def _answer(
        self, method: str, path: str, value: Any, timeout_s: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        body = None if value is None else msgspec.json.encode(value)
        connection = _UnixConnection(self.record.control, timeout_s)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            if response.status >= 400:
                raise _refusal(response.status, response.read())
            yield response
        except (OSError, http.client.HTTPException) as error:
            what = f"the platform (process {self.record.pid}) does not answer: {type(error).__name__}: {error}"
            raise PlatformError(what) from error
        finally:
            connection.close()


class _UnixConnection(http.client.HTTPConnection):
    """HTTP on a Unix socket. The standard library's, since httpx would be most of the time that a listing takes."""

    def __init__(self, path: str, timeout_s: float | None) -> None:
        super().__init__("platform")
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self._timeout_s)
        self.sock.connect(self._path)


def _record() -> Record:
    found = settings.read()
    record = address.read_record(found)
    if record is None:
        pid = address.coming_up(found)
        if pid is not None:
            raise Failure(f"the platform (process {pid}) is coming up", "wait for it, or faas down ends it")
        raise PlatformError(f"no platform runs here (there is no record of one in {found.run})")
    return record


def _refusal(status: int, content: bytes) -> RemoteError:
    try:
        problem = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        problem = {}
    detail = problem.get("detail") or content.decode("utf-8", "replace")
    return RemoteError(str(detail), status, problem)
