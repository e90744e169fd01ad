"""The client's side of HTTP/1.1: bytes of a connection in, checked requests out, rewritten for an instance.

A request head is parsed whole and written anew, and a body is framed anew, so an instance reads exactly what was
checked here: nothing can be smuggled past in a second length, a bare line feed or a folded header. No sockets here.
"""

import random
from collections.abc import Callable
from typing import Protocol

import httptools

from faas.platform.wire import MAX_HEAD_BYTES, WireError

ACTIVATE_MS = b"x-faas-activate-ms"  # to the instance: how long the activator held the request
COLD = b"x-faas-cold"  # to the instance: 1 where the request waited for an instance to start


class RequestHead:
    """One request without its body. `content_length` is None where there is none; `upgrade` names a protocol wanted."""

    __slots__ = (
        "chunked",
        "content_length",
        "host",
        "is_http10",
        "keep_alive",
        "lines",
        "method",
        "nominated",
        "peers",
        "proto",
        "request_id",
        "timeout_ms",
        "upgrade",
        "upgrade_asked",
        "url",
    )

    def __init__(self) -> None:
        self.method = b""
        self.url = b""
        self.host = b""
        self.lines: list[bytes] = []  # name, ": ", value, end of line, and so on: the headers passed on as they are
        self.content_length: int | None = None
        self.chunked = False
        self.is_http10 = False
        self.keep_alive = True
        self.upgrade = b""
        self.upgrade_asked = False
        self.nominated: tuple[bytes, ...] = ()
        self.peers = b""
        self.proto = b""
        self.request_id = b""
        self.timeout_ms: float | None = None

    @property
    def has_body(self) -> bool:
        """Whether body bytes follow the head."""
        return self.chunked or bool(self.content_length)

    def encode(self, path: bytes, *, held_ms: float | None, cold: bool) -> bytes:
        """The head as an instance gets it, for `path`. `held_ms` is None where the request was not held."""
        version = b" HTTP/1.0\r\n" if self.is_http10 else b" HTTP/1.1\r\n"
        parts = [self.method, b" ", path, version, *self.lines]
        if self.host:
            parts += (b"host: ", self.host, b"\r\n")
        if self.chunked:
            parts.append(b"transfer-encoding: chunked\r\n")
        elif self.content_length is not None:
            parts.append(b"content-length: %d\r\n" % self.content_length)
        if self.peers:
            parts += (b"x-forwarded-for: ", self.peers, b"\r\n")
        parts += (b"x-forwarded-proto: ", self.proto, b"\r\nx-request-id: ", self.request_id, b"\r\n")
        if self.upgrade:
            parts += (b"connection: upgrade\r\nupgrade: ", self.upgrade, b"\r\n")
        if self.timeout_ms is not None:
            parts.append(b"x-request-timeout-ms: %d\r\n" % max(1.0, self.timeout_ms - (held_ms or 0.0)))
        if held_ms is not None:
            parts.append(b"%b: %.3f\r\n" % (ACTIVATE_MS, held_ms))
        if cold:
            parts += (COLD, b": 1\r\n")
        parts.append(b"\r\n")
        return b"".join(parts)


class RequestSink(Protocol):
    """Who takes the requests of one connection, in their order."""

    def request_began(self, head: RequestHead) -> None:
        """A head is complete."""

    def body_arrived(self, data: bytes) -> None:
        """The next piece of the body of the request that began last, without its framing."""

    def request_ended(self) -> None:
        """The request that began last is complete."""


class RequestReader:
    """Reads the requests of one connection. `peer` is the client's address, empty where it has none.

    After a request that asks for an upgrade the reader keeps what follows until `resume` or `take_tail`; after one that
    closes the connection it ignores what follows.
    """

    def __init__(self, sink: RequestSink, peer: bytes) -> None:
        self._sink = sink
        self._peer = peer
        self._parser = httptools.HttpRequestParser(self)
        self._head = RequestHead()
        self._error: WireError | None = None
        self._in_head = False
        self._in_trailers = False
        self._is_last = False
        self._skips_head = False
        self._tail: bytes | None = None
        self._num_messages = 0
        self._num_head_bytes = 0

    @property
    def is_in_head(self) -> bool:
        """Whether a request has begun whose head is not complete."""
        return self._in_head

    @property
    def has_tail(self) -> bool:
        """Whether a request asked for an upgrade, and nobody has said yet what follows it."""
        return self._tail is not None

    def feed(self, data: bytes) -> None:
        """Read on. Raises WireError; the connection is then of no more use."""
        if self._tail is not None:
            self._tail += data
            return
        if self._is_last:
            return
        num_messages = self._num_messages if self._in_head else -1
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._after_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if not self._is_last:
                raise self._error or WireError(400, f"not a well-formed HTTP/1.1 request: {error}") from None
        if self._error is not None:
            raise self._error
        if self._in_head and num_messages == self._num_messages:
            self._num_head_bytes += len(data)
            if self._num_head_bytes > MAX_HEAD_BYTES:
                raise _head_too_large()

    def resume(self) -> None:
        """The upgrade was declined: what followed it is HTTP after all."""
        tail, self._tail = self._tail, None
        self._parser = httptools.HttpRequestParser(self)
        if tail:
            self.feed(tail)

    def take_tail(self) -> bytes:
        """The upgrade was granted: what followed it in the new protocol so far."""
        tail, self._tail = self._tail, None
        return tail or b""

    def _after_upgrade(self, rest: bytes) -> None:
        """The parser stops at each request that mentions an upgrade, before its body; go on where none is wanted."""
        if self._error is not None or (self._is_last and not self._head.has_body):
            return
        if self._head.upgrade:
            self._tail = rest
            return
        self._parser = httptools.HttpRequestParser(self)
        if self._head.has_body:
            self._skips_head = True
            length = self._head.content_length
            framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
            self._parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n")
            self._skips_head = False
        if rest:
            self.feed(rest)

    # What the parser calls.

    def on_message_begin(self) -> None:
        """A new request."""
        if self._skips_head:
            return
        self._head = RequestHead()
        self._in_head = True
        self._in_trailers = False
        self._num_messages += 1
        self._num_head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        if not self._skips_head:
            self._head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is dropped."""
        if self._skips_head or self._in_trailers:
            return
        self._num_head_bytes += len(name) + len(value) + 4
        read = _READ.get(name.lower())
        if read is None:
            self._head.lines += (name, b": ", value, b"\r\n")
            return
        try:
            read(self._head, value.strip())
        except WireError as error:
            self._error = self._error or error

    def on_headers_complete(self) -> None:
        """The head is complete."""
        if self._skips_head:
            return
        self._in_head = False
        self._in_trailers = True
        if self._error is None:
            try:
                self._complete_head(self._parser.get_http_version())
            except WireError as error:
                self._error = error
            else:
                self._sink.request_began(self._head)

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        if self._error is None:
            self._sink.body_arrived(data)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._error is not None or self._skips_head:
            return
        head = self._head
        if head.upgrade_asked and head.has_body and self._parser.should_upgrade():
            return  # its body is still to come
        self._is_last = not head.keep_alive
        self._sink.request_ended()

    def _complete_head(self, version: str) -> None:
        head, parser = self._head, self._parser
        if len(head.url) + self._num_head_bytes > MAX_HEAD_BYTES:
            raise _head_too_large()
        if version not in ("1.1", "1.0"):
            raise WireError(505, f"HTTP/{version} is not served here: use HTTP/1.1")
        head.method = parser.get_method()
        if head.method == b"CONNECT":
            raise WireError(501, "CONNECT is not served here")
        head.is_http10 = version == "1.0"
        if head.is_http10 and head.chunked:
            raise WireError(400, "an HTTP/1.0 request cannot have a Transfer-Encoding")
        head.keep_alive = not head.is_http10 and parser.should_keep_alive()
        if head.url[:1] != b"/":
            _take_absolute_form(head)
        if not head.host and not head.is_http10:
            raise WireError(400, "an HTTP/1.1 request needs one Host header")
        if head.nominated:
            _drop_nominated(head)
        if head.is_http10 or head.has_body or not head.upgrade_asked or head.upgrade.lower().startswith(_DECLINED):
            head.upgrade = b""
        head.peers = b", ".join(filter(None, (head.peers, self._peer)))
        head.proto = head.proto or b"http"
        head.request_id = head.request_id or b"%032x" % random.getrandbits(128)


_DECLINED = (b"h2c", b"http/", b"tls/")  # other versions of HTTP: an instance speaks 1.1, and a tunnel hides requests


def _head_too_large() -> WireError:
    return WireError(431, f"the request line and headers are over {MAX_HEAD_BYTES} bytes: send less in them")


def _take_absolute_form(head: RequestHead) -> None:
    """`GET http://host/path`, as sent to proxies: the target's host counts, not the header's (RFC 9112, 3.2.2)."""
    if head.url == b"*":
        return
    url = httptools.parse_url(head.url)
    if url.host is None or url.schema not in (b"http", b"https"):
        raise WireError(400, "the request target must be a path or an http address")
    head.host = url.host if url.port is None or url.port == 0 else b"%b:%d" % (url.host, url.port)
    head.url = (url.path or b"/") + (b"?" + url.query if url.query else b"")


def _drop_nominated(head: RequestHead) -> None:
    """Leave out the headers that `Connection` says are for this hop only."""
    lines = head.lines
    kept: list[bytes] = []
    for at in range(0, len(lines), 4):
        if lines[at].lower() not in head.nominated:
            kept += lines[at : at + 4]
    head.lines = kept


def _read_host(head: RequestHead, value: bytes) -> None:
    if head.host:
        raise WireError(400, "an HTTP/1.1 request needs one Host header, not several")
    head.host = value


def _read_content_length(head: RequestHead, value: bytes) -> None:
    if head.content_length is not None or head.chunked or not value.isdigit():
        raise WireError(400, "a request needs one Content-Length, a number, or one Transfer-Encoding")
    head.content_length = int(value)


def _read_transfer_encoding(head: RequestHead, value: bytes) -> None:
    if head.content_length is not None or head.chunked:
        raise WireError(400, "a request needs one Content-Length, a number, or one Transfer-Encoding")
    if value.lower() != b"chunked":
        raise WireError(501, f"Transfer-Encoding {value.decode('latin-1')!r} is not served here: use chunked")
    head.chunked = True


def _read_connection(head: RequestHead, value: bytes) -> None:
    tokens = {token.strip() for token in value.lower().split(b",")}
    head.upgrade_asked = head.upgrade_asked or b"upgrade" in tokens
    head.nominated += tuple(tokens - {b"", b"close", b"keep-alive", b"upgrade"})


def _read_upgrade(head: RequestHead, value: bytes) -> None:
    head.upgrade = value


def _read_forwarded_for(head: RequestHead, value: bytes) -> None:
    head.peers = b", ".join(filter(None, (head.peers, value)))


def _read_forwarded_proto(head: RequestHead, value: bytes) -> None:
    head.proto = value


def _read_request_id(head: RequestHead, value: bytes) -> None:
    head.request_id = value


def _read_timeout(head: RequestHead, value: bytes) -> None:
    if not value.isdigit() or int(value) == 0:
        raise WireError(400, f"X-Request-Timeout-Ms is {value.decode('latin-1')!r}: give whole milliseconds above 0")
    head.timeout_ms = float(value)


def _drop(_head: RequestHead, _value: bytes) -> None:
    """A header for this hop only, or one of ours that a client must not set."""


_READ: dict[bytes, Callable[[RequestHead, bytes], None]] = {
    b"host": _read_host,
    b"content-length": _read_content_length,
    b"transfer-encoding": _read_transfer_encoding,
    b"connection": _read_connection,
    b"upgrade": _read_upgrade,
    b"x-forwarded-for": _read_forwarded_for,
    b"x-forwarded-proto": _read_forwarded_proto,
    b"x-request-id": _read_request_id,
    b"x-request-timeout-ms": _read_timeout,
    b"keep-alive": _drop,
    b"proxy-connection": _drop,
    b"te": _drop,
    b"trailer": _drop,
    ACTIVATE_MS: _drop,
    COLD: _drop,
}
