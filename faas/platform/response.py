"""The instance's side of HTTP/1.1: just enough reading of an answer to know where it ends.

An instance is trusted to mean what it says, so its bytes go on as they came, but for headers of its hop. No sockets
here.
"""

import re

from faas.platform.wire import MAX_HEAD_BYTES, WireError

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])[ \r]")
_FRAMING = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|keep-alive|proxy-connection|upgrade)[ \t]*:[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
_HOP = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"upgrade"))
_MAX_LINE_BYTES = 4096  # of a chunk's size with its extensions
_UNTIL_CLOSE = -1


class ChunkScanner:
    """Finds where a chunked body ends (RFC 9112, 7.1)."""

    def __init__(self) -> None:
        self.is_done = False
        self._left = 0  # of a chunk's data and the line end after it
        self._line = b""
        self._in_trailers = False
        self._num_trailer_bytes = 0

    def feed(self, data: bytes) -> int:
        """How many bytes of `data` belong to the body. Raises WireError."""
        at, size = 0, len(data)
        while at < size and not self.is_done:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
                at += step
                continue
            end = data.find(b"\n", at) + 1
            self._line += data[at : end or size]
            at = end or size
            if len(self._line) > _MAX_LINE_BYTES:
                raise WireError(502, "the instance sent a chunk without a size")
            if end:
                self._take_line()
        return at

    def _take_line(self) -> None:
        line, self._line = self._line, b""
        if self._in_trailers:
            self._num_trailer_bytes += len(line)
            if self._num_trailer_bytes > MAX_HEAD_BYTES:
                raise WireError(502, f"the instance sent trailers over {MAX_HEAD_BYTES} bytes")
            self.is_done = line == b"\r\n"
            return
        digits = line.split(b";", 1)[0].strip()
        if not line.endswith(b"\r\n") or not re.fullmatch(rb"[0-9A-Fa-f]{1,16}", digits):
            raise WireError(502, "the instance sent a chunk without a size")
        chunk_bytes = int(digits, 16)
        self._in_trailers = chunk_bytes == 0
        self._left = chunk_bytes + 2 if chunk_bytes else 0


class ResponseReader:
    """Reads one answer. `status` is 0 until its head is complete.

    `is_reusable` says whether the connection may carry another request when `is_done`; `is_upgraded` that the
    connection has left HTTP.
    """

    __slots__ = (
        "_chunks",
        "_head",
        "_is_head",
        "_left",
        "_upgradable",
        "is_done",
        "is_reusable",
        "is_upgraded",
        "status",
    )

    def __init__(self, *, is_head: bool, upgradable: bool = False) -> None:
        self._is_head = is_head
        self._upgradable = upgradable
        self._head = b""
        self._left = 0
        self._chunks: ChunkScanner | None = None
        self.status = 0
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
            data = self._head + data
        out = b""
        while not self.status and data:
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                if len(data) > MAX_HEAD_BYTES:
                    raise WireError(502, f"the instance sent headers over {MAX_HEAD_BYTES} bytes")
                break
            out += self._take_head(data[:end], close)
            data = data[end:]
        if not self.status:
            self._head = data
            return out
        self._head = b""
        return out + self._body(data) if data or self.is_done else out

    def _take_head(self, head: bytes, close: bool) -> bytes:
        match = _STATUS.match(head)
        if match is None:
            raise WireError(502, "the instance sent an answer that is not HTTP/1.1")
        status = int(match[2])
        if status < 200 and status != 101:
            return head
        length, chunked, stays, rewrite = self._framing(head)
        self.status = status
        self.is_reusable = stays and match[1] == b"1"
        if status == 101:
            if not self._upgradable:
                raise WireError(502, "the instance changed the protocol though nobody asked it to")
            self.is_upgraded = True
            return head
        if self._is_head or status in (204, 304):
            self.is_done = True
        elif chunked:
            self._chunks = ChunkScanner()
        elif length is None:
            self._left = _UNTIL_CLOSE
            self.is_reusable = False
            close = True
        else:
            self._left = length
            self.is_done = length == 0
        if rewrite:
            head = _without_hop_headers(head)
        return head[:-2] + b"connection: close\r\n\r\n" if close else head

    @staticmethod
    def _framing(head: bytes) -> tuple[int | None, bool, bool, bool]:
        """The head's Content-Length, whether it is chunked, whether the connection stays, whether to rewrite it."""
        length: int | None = None
        chunked, stays, rewrite = False, True, False
        for name, value in _FRAMING.findall(head):
            key = name.lower()
            if key == b"content-length":
                if not value.strip().isdigit() or length not in (None, int(value)):
                    raise WireError(502, "the instance sent a Content-Length that is not one number")
                length = int(value)
            elif key == b"transfer-encoding":
                if value.strip().lower() != b"chunked":
                    raise WireError(502, "the instance sent a Transfer-Encoding other than chunked")
                chunked = True
            else:
                rewrite = True
                stays = stays and not (key == b"connection" and b"close" in value.lower())
        if chunked and length is not None:
            raise WireError(502, "the instance sent both a Content-Length and a Transfer-Encoding")
        return length, chunked, stays, rewrite

    def _body(self, data: bytes) -> bytes:
        if self.is_upgraded or self._left == _UNTIL_CLOSE:
            return data
        if self._chunks is not None:
            num = self._chunks.feed(data)
            self.is_done = self._chunks.is_done
        else:
            num = min(self._left, len(data))
            self._left -= num
            self.is_done = self._left == 0
        if num < len(data):
            self.is_reusable = False
            return data[:num]
        return data


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
