"""The client's side of HTTP/1.1: the bytes of a connection in, requests out, ready to go on to an instance.

Each head goes through llhttp, by httptools, which refuses whatever could be read in two ways: a second length, a bare
line feed, a folded header, a space before a colon. No sockets here.
"""

from collections.abc import Callable
from typing import Protocol

import httptools

from faas.platform.chunks import ChunkScanner
from faas.platform.request_head import RequestHead, read_request_head
from faas.platform.wire import MAX_HEAD_BYTES, WireError


class RequestSink(Protocol):
    """Who takes the requests of one connection, in their order; bodies in the framing of their head."""

    def request_began(self, head: RequestHead, body: bytes, *, is_complete: bool) -> None:
        """A head is complete, and this much of the body has come with it."""

    def body_arrived(self, data: bytes, *, is_complete: bool) -> None:
        """The next piece of the body of the request that began last."""


class RequestReader:
    """Reads the requests of one connection. `peer` is the client's address, empty where it has none.

    What follows a request that asks for an upgrade is kept until `resume` or `take_tail`; what follows one that closes
    the connection is ignored.
    """

    def __init__(self, sink: RequestSink, peer: bytes) -> None:
        self._sink = sink
        self._peer = peer
        self._parser: httptools.HttpRequestParser | None = None  # of a head that comes in pieces
        self._pieces = bytearray()
        self._is_head_complete = False
        self._raw = b""  # the last head as it came, and as it was read: a client often sends the same again
        self._head = RequestHead(b"", b"", b"", b"")
        self._after_head: Callable[[bytes], bytes] | None = None  # takes what follows a head, returns what is not its
        self._left = 0  # of a body of a known length
        self._chunks = ChunkScanner(400)  # of a body of an unknown one
        self._tail: bytes | None = None

    @property
    def is_in_head(self) -> bool:
        """Whether a request has begun whose head is not complete."""
        return self._parser is not None

    @property
    def has_tail(self) -> bool:
        """Whether a request asked for an upgrade, and nobody has said yet what follows it."""
        return self._tail is not None

    def feed(self, data: bytes) -> None:
        """Read on. Raises WireError; the connection is then of no more use."""
        while data:
            if self._after_head is not None:
                data = self._after_head(data)
                continue
            end = data.find(b"\r\n\r\n") + 4
            if end < 4 or self._parser is not None or data[0] in b"\r\n":
                data = self._gather_head(data)
                continue
            raw = data[:end]
            if raw != self._raw:
                self._check(httptools.HttpRequestParser(self), raw)
                self._read_head(raw)
            data = self._begin(data[end:])

    def resume(self) -> None:
        """The upgrade was declined: what followed it is HTTP after all. Raises WireError."""
        tail, self._tail, self._after_head = self._tail, None, None
        self.feed(tail or b"")

    def take_tail(self) -> bytes:
        """The upgrade was granted: what followed it in the new protocol so far."""
        tail, self._tail = self._tail, None
        return tail or b""

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self._is_head_complete = True

    def _check(self, parser: httptools.HttpRequestParser, data: bytes) -> None:
        """Let llhttp judge the next bytes of a head."""
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # it stops after the head of a request that mentions one
        except httptools.HttpParserError as error:
            raise WireError(400, f"not a well-formed HTTP/1.1 request: {error}") from None

    def _gather_head(self, data: bytes) -> bytes:
        """Take what `data` has of a head that comes in pieces; return what follows it."""
        if self._parser is None:
            data = data.lstrip(b"\r\n")  # empty lines between requests are allowed
            if not data:
                return b""
            self._parser = httptools.HttpRequestParser(self)
        num_before = len(self._pieces)
        self._pieces += data
        end = self._pieces.find(b"\r\n\r\n", max(0, num_before - 3)) + 4
        if end < 4:
            if len(self._pieces) > MAX_HEAD_BYTES:
                raise _head_too_large()
            self._check(self._parser, data)
            return b""
        raw = bytes(self._pieces[:end])
        self._check(self._parser, raw[num_before:])
        self._parser = None
        self._pieces.clear()
        self._read_head(raw)
        return self._begin(data[end - num_before :])

    def _read_head(self, raw: bytes) -> None:
        """`raw` is a head that llhttp has passed."""
        if len(raw) > MAX_HEAD_BYTES:
            raise _head_too_large()
        if not self._is_head_complete:
            raise WireError(400, "not a well-formed HTTP/1.1 request")
        self._is_head_complete = False
        self._head = read_request_head(raw, self._peer)
        self._raw = raw

    def _begin(self, data: bytes) -> bytes:
        """A request begins, of which `data` follows the head; return what follows the request."""
        head = self._head
        if head.chunked:
            self._chunks, self._after_head = ChunkScanner(400), self._feed_chunked
            self._sink.request_began(head, b"", is_complete=False)
            return data
        length = head.content_length
        if len(data) < length:
            self._left, self._after_head = length - len(data), self._feed_sized
            self._sink.request_began(head, data, is_complete=False)
            return b""
        self._end()
        self._sink.request_began(head, data[:length], is_complete=True)
        return data[length:]

    def _feed_sized(self, data: bytes) -> bytes:
        left = self._left
        if len(data) < left:
            self._left = left - len(data)
            self._sink.body_arrived(data, is_complete=False)
            return b""
        self._end()
        self._sink.body_arrived(data[:left], is_complete=True)
        return data[left:]

    def _feed_chunked(self, data: bytes) -> bytes:
        num = self._chunks.feed(data)
        if self._chunks.is_done:
            self._end()
        self._sink.body_arrived(data[:num], is_complete=self._chunks.is_done)
        return data[num:]

    def _end(self) -> None:
        """The request is complete."""
        if self._head.upgrade:
            self._tail, self._after_head = b"", self._keep_tail
        elif self._head.keep_alive:
            self._after_head = None
        else:
            self._after_head = _ignore

    def _keep_tail(self, data: bytes) -> bytes:
        assert self._tail is not None
        self._tail += data
        return b""


def _ignore(_data: bytes) -> bytes:
    """What follows the last request."""
    return b""


def _head_too_large() -> WireError:
    return WireError(431, f"the request line and headers are over {MAX_HEAD_BYTES} bytes: send less in them")
