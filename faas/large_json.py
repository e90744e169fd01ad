"""JSON that is large: read in slices, so that others are hardly held up.

A decoder holds Python's lock until it is through, and what is on other threads, the event loop too, waits for it: for
100 MB that is seconds. So the elements of an array, and the fields of an object, are cut into slices, each of as many
as are short together; each slice is decoded by itself, and after it there is a pause. What is longer than a slice is
entered and cut likewise, a long string is read in pieces.

Where a slice may end is guessed from behind: at the last comma that is in no string and no container which begins in
the slice. If it decodes, that was right. Else, or where that is quick, it is walked through from bracket to bracket:
the container may end within it.
"""

from __future__ import annotations

import re
import time
from typing import Any, Final

import msgspec

from faas import large_memory, long_strings

SLICE_BYTES: Final = 1 << 15
"""Decoded in about a millisecond where it holds numbers."""

NOT_SO: Final = object()
"""What is read of what is no JSON, or has so many long parts in each other that a decoder has to be asked."""

_MAX_OPEN: Final = 64
_ENTERED_PER_SLICE: Final = 2
_SPACE: Final = re.compile(rb"[ \t\n\r]{0,%d}" % SLICE_BYTES)
_SCALAR: Final = re.compile(rb"[-+.\w]{1,%d}" % SLICE_BYTES)
_REST_OF_STRING: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_MARK: Final = re.compile(rb'["\[\]{}]')
_FEW_BYTES: Final = 1 << 10
_FEW: Final = 8
"""Marks in the first bytes of a slice, up to which walking through it costs less than a guess that may be wrong."""

_AS_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_COMMA, _COLON, _QUOTE = b',:"'
_OPENING: Final = b"[{"
_CLOSING: Final = b"]}"
_DECODER: Final = msgspec.json.Decoder()


def read(body: bytes) -> Any:
    """Return what a JSON body says, as plain values, or NOT_SO."""
    try:
        return _Reader(body).read()
    except (_Unread, msgspec.DecodeError, UnicodeDecodeError, RecursionError, IndexError):
        return NOT_SO


class _Unread(Exception):
    """It is not to be read here."""


class _Open:
    """A container that is being read.

    `key` is that of the value that is being read where it is an object, and `begun` tells that there was a comma.
    """

    __slots__ = ("begun", "end", "held", "is_object", "key")

    def __init__(self, mark: int) -> None:
        self.is_object = mark == _OPENING[1]
        self.end = _CLOSING[self.is_object]
        self.held: Any = {} if self.is_object else []
        self.key = ""
        self.begun = False

    def take(self, text: bytes) -> int:
        """Take in the elements or fields of a text, and return how many it has."""
        if self.is_object:
            fields = _DECODER.decode(b"{%b}" % text)
            self.held.update(fields)
            return len(fields)
        elements = _DECODER.decode(b"[%b]" % text)
        self.held += elements
        return len(elements)

    def add(self, value: Any) -> None:
        """Take in one value."""
        if self.is_object:
            self.held[self.key] = value
        else:
            self.held.append(value)


class _Reader:
    """Reads one body; raises what `read` catches."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0
        self._open: list[_Open] = []
        self._value: Any = None
        self._num_left_to_enter = _ENTERED_PER_SLICE * (len(body) // SLICE_BYTES) + _MAX_OPEN

    def read(self) -> Any:
        """Return the value."""
        self._begin()
        while self._open:
            self._slice()
            time.sleep(large_memory.PAUSE_S)
        self._skip_space()
        if self._at != len(self._body):
            raise _Unread
        return self._value

    def _slice(self) -> None:
        """Read on in the innermost container: some of it, the rest of it, or the beginning of what is long in it."""
        inner = self._open[-1]
        piece = self._body[self._at : self._at + SLICE_BYTES]
        comma = _guessed_comma(piece)
        end = _end(piece) if len(_MARK.findall(piece, 0, _FEW_BYTES)) < _FEW else -1
        if end < 0 and self._take_up_to(comma, inner, piece):
            return
        end = _end(piece) if end < 0 else end
        if end >= 0:
            num_taken = inner.take(piece[:end])
            if piece[end] != inner.end or (inner.begun and not num_taken):
                raise _Unread
            self._at += end + 1
            self._open.pop()
            self._finish(inner.held)
        elif comma >= 0:
            raise _Unread
        else:
            if inner.is_object:
                self._skip_space()
                inner.key = self._string()
                self._expect(_COLON)
            self._begin()

    def _take_up_to(self, comma: int, inner: _Open, piece: bytes) -> bool:
        """Read what is before a comma; False where that is nothing whole."""
        if comma < 0:
            return False
        try:
            if not inner.take(piece[:comma]):
                raise _Unread
        except msgspec.DecodeError:
            return False
        inner.begun = True
        self._at += comma + 1
        return True

    def _begin(self) -> None:
        """Begin a value that is long, or may be."""
        self._skip_space()
        mark = self._body[self._at]
        if mark in _OPENING:
            self._num_left_to_enter -= 1
            if len(self._open) == _MAX_OPEN or not self._num_left_to_enter:
                raise _Unread
            self._open.append(_Open(mark))
            self._at += 1
        elif mark == _QUOTE:
            self._finish(self._string())
        else:
            found = _SCALAR.match(self._body, self._at)
            if found is None:
                raise _Unread
            self._at = found.end()
            self._finish(_DECODER.decode(found[0]))

    def _finish(self, value: Any) -> None:
        """Give a value to the container that it is in, and that one to its own if it ends with it."""
        while self._open:
            inner = self._open[-1]
            inner.add(value)
            self._skip_space()
            mark = self._body[self._at]
            self._at += 1
            if mark == _COMMA:
                inner.begun = True
                return
            if mark != inner.end:
                raise _Unread
            value = self._open.pop().held
        self._value = value

    def _string(self) -> str:
        begin = self._at + 1
        end = long_strings.end_of(self._body, begin)
        if self._body[self._at] != _QUOTE or end < 0:
            raise _Unread
        self._at = end + 1
        return long_strings.text(self._body, begin, end)

    def _expect(self, mark: int) -> None:
        self._skip_space()
        if self._body[self._at] != mark:
            raise _Unread
        self._at += 1

    def _skip_space(self) -> None:
        while (found := _SPACE.match(self._body, self._at)) and found.end() > self._at:
            self._at = found.end()


def _guessed_comma(piece: bytes) -> int:
    """Return where the last comma is that is in no string and no container which begins in the piece; -1: nowhere.

    It may belong to another container than the one that the piece begins in, if that ends in the piece.
    """
    plain = piece.translate(_AS_BRACKETS).replace(rb"\\", b"  ").replace(rb"\"", b"  ")
    parts = plain.split(b'"')  # every other one is in a string
    outside = b"".join(parts[::2])
    depth = outside.count(b"[") - outside.count(b"]")
    at = len(piece)
    for number in range(len(parts) - 1, -1, -1):
        part = parts[number]
        at -= len(part)
        if number % 2 == 0:
            comma, depth = _comma_from_behind(part, depth)
            if comma >= 0:
                return at + comma
        at -= 1
    return -1


def _comma_from_behind(part: bytes, depth: int) -> tuple[int, int]:
    """Return where the last comma at depth 0 is, -1 where none is, and the depth there; `depth` is that of the end."""
    end = len(part)
    while True:
        opening, closing = part.rfind(b"[", 0, end), part.rfind(b"]", 0, end)
        bracket = max(opening, closing)
        comma = part.rfind(b",", bracket + 1, end) if depth == 0 else -1
        if comma >= 0 or bracket < 0:
            return comma, depth
        depth += 1 if closing > opening else -1
        end = bracket


def _end(piece: bytes) -> int:
    """Return where the container ends that a piece begins in; -1: not in it."""
    plain = piece.translate(_AS_BRACKETS)
    depth = at = 0
    quote = opening = closing = -1  # the next ones
    while True:
        closing = plain.find(b"]", at) if closing < at else closing
        if closing < 0:
            return -1
        opening = _next(plain, b"[", at) if opening < at else opening
        quote = _next(plain, b'"', at) if quote < at else quote
        if quote < min(opening, closing):
            at = _REST_OF_STRING.match(plain, quote + 1).end()  # type: ignore[union-attr]
        elif opening < closing:
            depth, at = depth + 1, opening + 1
        elif depth == 0:
            return closing
        else:
            depth, at = depth - 1, closing + 1


def _next(plain: bytes, mark: bytes, at: int) -> int:
    found = plain.find(mark, at)
    return len(plain) if found < 0 else found
