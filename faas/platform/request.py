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

_MAX_REMEMBERED_BYTES = 4096


class RequestSink(Protocol):
    """Who takes the requests of one connection, in their order; bodies in the framing of their head."""

    def request_began(self, head: RequestHead, body: bytes, *, is_complete: bool) -> None:
        """A head is complete, and this much of the body has come with it."""

    def body_arrived(self, data: bytes, *, is_complete: bool) -> None:
        """The next piece of the body of the request that began last."""


class RequestReader:
    """Reads the requests of one connection. `peer` is the client's address, empty where it has none.

    The sink may `pause` it when a request begins: that one's body and what follows is then kept until `resume`. What
    follows a request that closes the connection is ignored.
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
        self._rest = b""  # what came while paused
        self.is_paused = False

    @property
    def is_in_head(self) -> bool:
        """Whether a request has begun whose head is not complete."""
        return self._parser is not None

    def feed(self, data: bytes) -> None:
        """Read on. Raises WireError; the connection is then of no more use."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        while data and not self.is_paused:
            if self._after_head is not None:
                data = self._after_head(data)
            elif self._raw and self._parser is None and data.startswith(self._raw):
                data = self._begin(data[len(self._raw) :])
            else:
                data = self._take_head(data)
        self._rest = data

    def pause(self) -> None:
        """Read no further than the request that begins now; keep what follows."""
        self.is_paused = True

    def resume(self) -> None:
        """Read what was kept. Raises WireError."""
        self.is_paused = False
        self.feed(b"")

    def take_rest(self) -> bytes:
        """What was kept, if it is not HTTP."""
        rest, self._rest = self._rest, b""
        return rest

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

    def _take_head(self, data: bytes) -> bytes:
        """Take a head, or what `data` has of it; return what follows."""
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
        self._raw = raw if len(raw) <= _MAX_REMEMBERED_BYTES else b""

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
        if not head.keep_alive:
            self._after_head = _ignore
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
        self._after_head = None if self._head.keep_alive else _ignore


def _ignore(_data: bytes) -> bytes:
    """What follows the last request."""
    return b""


def _head_too_large() -> WireError:
    return WireError(431, f"the request line and headers are over {MAX_HEAD_BYTES} bytes: send less in them")
