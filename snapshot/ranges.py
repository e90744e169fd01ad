"""Ranges of an object over HTTP: bytes as the socket gives them, and nothing in between.

A signed address needs no library to be read. Not every server answers a range with status 206, and some answer with
the whole object: what counts is what the answer says of its bytes, and how many there are.
"""

import functools
import http.client
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Generator
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

# Small enough to be still in the processor's cache when it is digested and written.
PIECE_BYTES = 256 << 10
BEYOND_END = "InvalidRange"
_TIMEOUT_S = 30.0
_MAX_ERROR_BYTES = 1 << 16
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_CODE = re.compile(rb"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(rb"<Message>([^<]*)</Message>")


class Interrupted(Exception):
    """The range did not come whole, for a reason that may pass: ask again for what is missing."""


class Refused(Exception):
    """The server will not give the range; asking again for the same would end the same."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"status {status}, {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


class RangeReader:
    """One connection, kept open from range to range. For one thread. `proxy_of` says which proxy an address wants."""

    def __init__(
        self,
        *,
        ca_bundle: str | None = None,
        timeout_s: float = _TIMEOUT_S,
        proxy_of: Callable[[str], str | None] = lambda url: None,
    ) -> None:
        self._ca_bundle = ca_bundle
        self._proxy_of = proxy_of
        self._proxy: _Proxy | None = None
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._host = ""
        self._buffer = memoryview(bytearray(PIECE_BYTES))

    def pieces(self, url: str, begin: int, end: int) -> Generator[memoryview, None, None]:
        """The bytes from `begin` to `end` (more than none), in order; each piece is good until the next is asked for.

        Raises Interrupted, also after some pieces, and Refused.
        """
        whole = False
        try:
            response = self._ask(url, begin, end)
            self._skip(response, _bytes_before(response, begin, end))
            position = begin
            while position < end:
                num_bytes = response.readinto(self._buffer[: min(PIECE_BYTES, end - position)])
                if not num_bytes:
                    raise Interrupted(f"the answer ended {end - position} bytes short")
                position += num_bytes
                yield self._buffer[:num_bytes]
            whole = not response.length  # or the server sends more than was asked for
        except (OSError, http.client.HTTPException) as error:
            raise Interrupted(f"{type(error).__name__}: {error}") from error
        finally:
            if not whole:
                self.close()

    def close(self) -> None:
        """Close the connection; the next range opens one again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, url: str, begin: int, end: int) -> http.client.HTTPResponse:
        parts = urlsplit(url)
        if self._host != parts.netloc:
            self.close()
        if self._connection is None:
            self._connection, self._host = self._connect(url, parts), parts.netloc
        headers = {"Range": f"bytes={begin}-{end - 1}", "Accept-Encoding": "identity"}
        target = f"{parts.path}?{parts.query}"
        if self._proxy is not None and parts.scheme == "http":  # it is asked for the whole address, and passes it on
            target, headers = url, headers | self._proxy.headers
        self._connection.request("GET", target, headers=headers)
        response = self._connection.getresponse()
        if response.status in (200, 206):
            return response
        body = response.read(_MAX_ERROR_BYTES)
        code = _found(_CODE, body) or str(response.status)
        if response.status in _TRANSIENT or code == "RequestTimeout":
            raise Interrupted(f"status {response.status} ({code})")
        raise Refused(response.status, code, _found(_MESSAGE, body) or response.reason)

    def _connect(self, url: str, parts: SplitResult) -> http.client.HTTPConnection:
        proxy = self._proxy_of(url)
        self._proxy = None if proxy is None else _Proxy.parse(proxy)
        host = parts.netloc if self._proxy is None else self._proxy.host
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, timeout=self._timeout_s)
        connection = http.client.HTTPSConnection(host, timeout=self._timeout_s, context=_trust(self._ca_bundle))
        if self._proxy is not None:
            connection.set_tunnel(parts.netloc, headers=self._proxy.headers)
        return connection

    def _skip(self, response: http.client.HTTPResponse, num_bytes: int) -> None:
        while num_bytes:
            skipped = response.readinto(self._buffer[: min(PIECE_BYTES, num_bytes)])
            if not skipped:
                raise Interrupted("the answer ended before the range")
            num_bytes -= skipped


@dataclass(frozen=True)
class _Proxy:
    """host: with its port; headers: what it is to be told, where its address has a user."""

    host: str
    headers: dict[str, str]

    @classmethod
    def parse(cls, address: str) -> "_Proxy":
        parts = urlsplit(address if "//" in address else f"//{address}")
        user, _, host = parts.netloc.rpartition("@")
        headers = {"Proxy-Authorization": f"Basic {b64encode(unquote(user).encode()).decode()}"} if user else {}
        return cls(host if parts.port else f"{host}:80", headers)


@functools.cache
def _trust(ca_bundle: str | None) -> ssl.SSLContext:
    """Certificates take long to read, and each stream has a connection of its own."""
    return ssl.create_default_context(cafile=ca_bundle)


def _bytes_before(response: http.client.HTTPResponse, begin: int, end: int) -> int:
    """How many bytes of the answer come before those asked for: none, or, where it is the whole object, `begin`."""
    stated = response.getheader("Content-Range")
    if stated is None:
        if response.status == 206:
            raise Interrupted("the answer does not say which range it is")
        if response.length is not None and response.length < end:
            raise _beyond(end, str(response.length))
        return begin
    found = _CONTENT_RANGE.fullmatch(stated.strip())
    if found is not None and found[3] != "*" and int(found[3]) < end:
        raise _beyond(end, found[3])
    if found is None or (int(found[1]), int(found[2])) != (begin, end - 1):
        raise Interrupted(f"the answer is {stated!r}, asked for was {begin}-{end - 1}")
    if response.length is not None and response.length != end - begin:
        raise Interrupted(f"the answer has {response.length} bytes for a range of {end - begin}")
    return 0


def _beyond(end: int, num_bytes: str) -> Refused:
    """What other servers answer by themselves when an object ends before a range does."""
    return Refused(416, BEYOND_END, f"the object has {num_bytes} bytes, asked for was up to {end}")


def _found(pattern: re.Pattern[bytes], body: bytes) -> str:
    found = pattern.search(body)
    return found[1].decode(errors="replace") if found else ""
