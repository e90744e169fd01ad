"""A long string in JSON (a file in base64, a document): read in pieces, with a pause after each."""

from __future__ import annotations

import re
import time
from typing import Final

import msgspec

from faas import large_memory

PIECE_BYTES: Final = 1 << 17

_LONGEST_ESCAPE: Final = 12  # a pair of surrogates
_WHOLE: Final = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*+", re.DOTALL
)
_ASCII, _LATIN_1, _TWO_BYTES, _ANY = 0x7F, 0xFF, 0xFFFF, 0x10FFFF
_DECODER: Final = msgspec.json.Decoder(str)


def end_of(body: bytes, begin: int) -> int:
    """Return where the quote is that ends the string which begins at `begin`, behind its own quote; -1: nowhere."""
    for low in range(begin, len(body), PIECE_BYTES):
        at = low - 1
        while (at := body.find(b'"', at + 1, low + PIECE_BYTES)) >= 0:
            if not _is_escaped(body, begin, at):
                return at
        time.sleep(large_memory.PAUSE_S)
    return -1


def text(body: bytes, begin: int, end: int) -> str:
    """Return what stands between two quotes.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError: it is not valid.
    """
    if end - begin <= PIECE_BYTES:
        return _decoded(body[begin:end])
    pieces: list[str] = []
    while begin < end:
        cut = _cut(body, begin, end)
        pieces.append(_decoded(body[begin:cut]))
        begin = cut
        time.sleep(large_memory.PAUSE_S)
    return _joined(pieces)


def _is_escaped(body: bytes, begin: int, at: int) -> bool:
    first = at
    while first > begin and body[first - 1] == ord("\\"):
        first -= 1
    return (at - first) % 2 == 1


def _decoded(piece: bytes) -> str:
    return _DECODER.decode(b'"%b"' % piece)


def _cut(body: bytes, start: int, end: int) -> int:
    """Return where a piece from `start` on may end: inside of no character and no escape."""
    cut = min(end, start + PIECE_BYTES)
    if cut < end and b"\\" in body[max(start, cut - _LONGEST_ESCAPE) : cut]:
        found = _WHOLE.match(body, start, cut)
        assert found is not None  # an empty one, if nothing else
        cut = found.end()
    while start < cut < end and body[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut if cut > start else end


def _joined(pieces: list[str]) -> str:
    """Return what `join` does, and empty `pieces`.

    Python's own holds the lock while the system finds pages for all of that, and takes back those of the pieces.
    """
    import ctypes  # is for this alone

    api = ctypes.pythonapi
    make, copy = api.PyUnicode_New, api.PyUnicode_CopyCharacters
    make.argtypes, make.restype = (ctypes.c_ssize_t, ctypes.c_uint32), ctypes.c_void_p
    copy.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.py_object, ctypes.c_ssize_t, ctypes.c_ssize_t)
    copy.restype = ctypes.c_ssize_t
    highest = max(map(_highest, pieces))
    made, at = make(sum(map(len, pieces)), highest), 0  # can be written to as long as no name in Python refers to it
    pieces.reverse()
    while pieces:
        piece = pieces.pop()
        at += copy(made, at, piece, 0, len(piece))
        del piece
        time.sleep(large_memory.PAUSE_S)
    whole: str = ctypes.cast(made, ctypes.py_object).value
    api.Py_DecRef(ctypes.py_object(whole))  # the reference that it was made with
    return whole


def _highest(piece: str) -> int:
    """Return the highest character that a string of this one's width holds."""
    if piece.isascii():
        return _ASCII
    try:
        piece.encode("latin-1")
    except UnicodeEncodeError:
        return _TWO_BYTES if len(piece.encode("utf-16-le")) == 2 * len(piece) else _ANY
    return _LATIN_1
