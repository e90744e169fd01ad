"""The control interface of a platform, as commands ask it: this machine's on its Unix socket, or one elsewhere.

That of the platform at `FAAS_URL` is asked where `FAAS_TOKEN` is set too.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self
from urllib.parse import urlsplit

import msgspec

from faas import address, settings
from faas.address import Record
from faas.cli.failure import Failure
from faas.errors import PlatformError, RemoteError, SettingError
from faas.settings import Settings

PREFIX: Final = "/_faas/control"
"""Where the control interface is on a platform's own port."""
_ANSWER_S = 60.0


@dataclass(frozen=True)
class Control:
    """The control interface of one platform, which is called `title`; `connect` makes a connection for an answer."""

    title: str
    connect: Callable[[float | None], http.client.HTTPConnection]
    prefix: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def named(cls) -> Self:
        """Return that of the platform which the environment names, else that of this machine's.

        Raises:
            PlatformError: none runs here.
            SettingError: `FAAS_URL` is no URL.
            Failure: it is coming up still, and cannot be asked.
        """
        elsewhere = named_elsewhere(settings.read())
        return cls.of(record_here()) if elsewhere is None else cls.at(*elsewhere)

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return that of a platform on this machine."""
        return cls(f"the platform (process {record.pid})", partial(_UnixConnection, record.control))

    @classmethod
    def at(cls, url: str, token: str, *, host: str | None = None) -> Self:
        """Return that of the platform at a URL; `host` is the name that it goes by there. Raises SettingError."""
        headers = {"Authorization": f"Bearer {token}"} | ({} if host is None else {"Host": host})
        return cls(f"the platform at {url}", _connector(url), urlsplit(url).path.rstrip("/") + PREFIX, headers)

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
        connection = self.connect(timeout_s)
        try:
            connection.request(method, self.prefix + path, body, dict(self.headers))
            response = connection.getresponse()
            if response.status >= 400:
                raise _refusal(response.status, response.read())
            yield response
        except (OSError, http.client.HTTPException) as error:
            what = f"{self.title} does not answer: {type(error).__name__}: {error}"
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


def _connector(url: str) -> Callable[[float | None], http.client.HTTPConnection]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise SettingError(f"{settings.URL}={url!r}: write a URL such as http://127.0.0.1:8000")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    host, port = parts.hostname, parts.port
    return lambda timeout_s: kind(host, port, timeout=timeout_s)


def named_elsewhere(found: Settings) -> tuple[str, str] | None:
    """Return the URL and the token of the platform that the environment names, if it names one."""
    return (found.url, found.token) if found.url is not None and found.token is not None else None


def record_here() -> Record:
    """Return the record of this machine's platform. Raises PlatformError and Failure as `Control.named` does."""
    found = settings.read()
    record = address.read_record(found)
    if record is None:
        pid = address.holder(found)
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
