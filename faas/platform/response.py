"""The instance's side of HTTP/1.1: just enough reading of an answer to know where it ends.

An instance is trusted to mean what it says, so its bytes go on as they came, but for headers of its hop. No sockets
here.
"""

import re

from faas.platform.chunks import ChunkScanner
from faas.platform.wire import MAX_HEAD_BYTES, WireError

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})[ \r]")
_FINAL = re.compile(rb"HTTP/1\.1 (?!204|304)[2-9][0-9]{2}[ \r]")
_FRAMING = re.compile(  # in a head in lower case
    rb"\r\n(?=[ctkpu])(content-length|transfer-encoding|connection|keep-alive|proxy-connection|upgrade)[ \t]*:"
    rb"[ \t]*([^\r\n]*)"
)
_HOP = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"upgrade"))
_MAX_DIGITS = 18
_UNTIL_CLOSE = -1


def is_plain(data: bytes) -> bool:
    """Whether `data` is a whole answer that goes on as it came and leaves its connection fit for the next: most are.

    Not so for an answer to a HEAD request. Of the rest, ResponseReader knows what to do.
    """
    started = _FINAL.match(data)
    if started is None:
        return False
    end = data.find(b"\r\n\r\n") + 4
    framing = _FRAMING.findall(data[:end].lower())
    if len(framing) != 1:
        return False
    [(name, value)] = framing
    return name == b"content-length" and value.isdigit() and len(value) <= _MAX_DIGITS and len(data) == end + int(value)


class ResponseReader:
    """Reads one answer. `status` is empty until its head is complete.

    `is_reusable` says whether the connection may carry another request when `is_done`; `is_upgraded` that the
    connection has left HTTP.
    """

    __slots__ = (
        "_chunks",
        "_head",
        "_is_head",
        "_left",
        "_may_upgrade",
        "is_done",
        "is_reusable",
        "is_upgraded",
        "status",
    )

    def __init__(self, *, is_head: bool, may_upgrade: bool) -> None:
        self._is_head = is_head
        self._may_upgrade = may_upgrade
        self._head = b""  # as far as it has arrived
        self._left = 0
        self._chunks: ChunkScanner | None = None
        self.status = b""
        self.is_done = False
        self.is_reusable = False
        self.is_upgraded = False

    @property
    def ends_with_connection(self) -> bool:
        """Whether only the end of the connection ends the answer."""
        return self._left == _UNTIL_CLOSE

    def feed(self, data: bytes, *, close: bool) -> bytes:
        """What goes on to the client. `close` adds `Connection: close` to the head. Raises WireError.

        What follows the end of the answer is nobody's: it is dropped, and the connection is not reusable.
        """
        if self.status:
            return self._body(data)
        if self._head:
            data, self._head = self._head + data, b""
        out = b""
        while data and not self.status:
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                if len(data) > MAX_HEAD_BYTES:
                    raise WireError(502, f"the instance sent headers over {MAX_HEAD_BYTES} bytes")
                self._head = data
                return out
            out += self._take_head(data[:end], close)
            data = data[end:]
        return out + self._body(data) if data else out

    def _take_head(self, head: bytes, close: bool) -> bytes:
        started = _STATUS.match(head)
        if started is None:
            raise WireError(502, "the instance sent an answer that is not HTTP/1.1")
        minor, code = started.groups()
        if code == b"101":
            return self._change_protocol(head)
        if code < b"200":
            return head
        self.is_reusable = minor == b"1"
        framing = _FRAMING.findall(head.lower())
        if len(framing) == 1 and framing[0][0] == b"content-length":
            self._left = _length(framing[0][1])
            self.is_done = self._left == 0
        else:
            self._read_framing(framing)
            head = _without_hop_headers(head)
        if self._is_head or code in (b"204", b"304"):
            self.is_done, self._left, self._chunks = True, 0, None
        elif self._left == _UNTIL_CLOSE:
            self.is_reusable, close = False, True
        self.status = code
        return head[:-2] + b"connection: close\r\n\r\n" if close else head

    def _change_protocol(self, head: bytes) -> bytes:
        if not self._may_upgrade:
            raise WireError(502, "the instance changed the protocol though nobody asked it to")
        self.status, self.is_upgraded = b"101", True
        return head

    def _read_framing(self, framing: list[tuple[bytes, bytes]]) -> None:
        """Where the body ends and whether the connection outlives it, from more or fewer headers than a length."""
        self._left = _UNTIL_CLOSE
        for name, value in framing:
            if name == b"content-length":
                if self._left not in (_UNTIL_CLOSE, _length(value)):
                    raise WireError(502, "the instance sent several Content-Lengths")
                self._left = _length(value)
            elif name == b"transfer-encoding":
                if value.strip() != b"chunked":
                    raise WireError(502, "the instance sent a Transfer-Encoding other than chunked")
                self._chunks = ChunkScanner(502)
            elif name == b"connection" and b"close" in value:
                self.is_reusable = False
        if self._chunks is None:
            self.is_done = self._left == 0
        elif self._left == _UNTIL_CLOSE:
            self._left = 0
        else:
            raise WireError(502, "the instance sent both a Content-Length and a Transfer-Encoding")

    def _body(self, data: bytes) -> bytes:
        if self._chunks is not None:
            num = self._chunks.feed(data)
            self.is_done = self._chunks.is_done
        elif self.is_upgraded or self._left == _UNTIL_CLOSE:
            return data
        else:
            num = min(self._left, len(data))
            self._left -= num
            self.is_done = self._left == 0
        if num < len(data):
            self.is_reusable = False
            return data[:num]
        return data


def _length(value: bytes) -> int:
    value = value.strip()
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        raise WireError(502, "the instance sent a Content-Length that is not a number")
    return int(value)


def _without_hop_headers(head: bytes) -> bytes:
    """`head` without the headers that concern only the connection it came by."""
    lines = head[:-4].split(b"\r\n")
    named = [line.split(b":", 1)[0].strip().lower() for line in lines]
    nominated = {
        token.strip().lower()
        for line, name in zip(lines, named, strict=True)
        if name == b"connection"
        for token in line.split(b":", 1)[1].split(b",")
    }
    dropped = _HOP | (nominated - {b"content-length", b"transfer-encoding"})
    kept = [line for line, name in zip(lines[1:], named[1:], strict=True) if name not in dropped]
    return b"\r\n".join((lines[0], *kept, b"", b""))
