"""Where a chunked body ends (RFC 9112, 7.1), without taking it apart."""

import re

from faas.platform.wire import MAX_HEAD_BYTES, WireError

_MAX_LINE_BYTES = 4096  # of a chunk's size with its extensions
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\0]*)?\r\n")
_TRAILER_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r\n")


class ChunkScanner:
    """Scans one body; as strict as the parsers at both ends, so that all agree on where it ends.

    A violation raises WireError with `status`.
    """

    def __init__(self, status: int) -> None:
        self.is_done = False
        self._status = status
        self._left = 0  # of a chunk's data
        self._line = b""  # the line so far
        self._ends_data = False  # the line is the one that ends a chunk's data
        self._in_trailers = False
        self._num_trailer_bytes = 0

    def feed(self, data: bytes) -> int:
        """How many bytes of `data` belong to the body."""
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
            if end:
                self._take_line()
            elif len(self._line) > _MAX_LINE_BYTES:
                raise self._violation()
        return at

    def _take_line(self) -> None:
        line, self._line = self._line, b""
        if self._ends_data:
            if line != b"\r\n":
                raise self._violation()
            self._ends_data = False
        elif self._in_trailers:
            self._num_trailer_bytes += len(line)
            self.is_done = line == b"\r\n"
            if not self.is_done and (self._num_trailer_bytes > MAX_HEAD_BYTES or not _TRAILER_LINE.fullmatch(line)):
                raise self._violation()
        else:
            match = _SIZE_LINE.fullmatch(line)
            if match is None or len(line) > _MAX_LINE_BYTES:
                raise self._violation()
            self._left = int(match[1], 16)
            self._in_trailers = self._left == 0
            self._ends_data = not self._in_trailers

    def _violation(self) -> WireError:
        return WireError(self._status, "the chunks of a Transfer-Encoding: chunked body are malformed")
