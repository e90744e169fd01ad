"""JSON that is large because it holds long strings (a file in base64, a document): read without holding others up.

A decoder holds Python's lock until it is through, and what is on other threads, the event loop too, waits for it: for a
string of 100 MB that is long enough to be noticed. So long strings are cut out, read in pieces with a pause after each,
and put back into what a decoder made of the rest.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

LONG_BYTES: Final = 1 << 20
"""What is at least that long is read in pieces; the rest must not be longer."""

PIECE_BYTES: Final = 1 << 18

_PAUSE_S: Final = 1e-4
_MOST_QUOTES: Final = 10_000
_LONGEST_ESCAPE: Final = 12  # a pair of surrogates

NOT_SO: Final = object()


def read(body: bytes) -> Any:
    """Return what a JSON body says, as plain values; NOT_SO where it is not such a one, or not JSON."""
    found = _long_strings(body)
    if not found:
        return NOT_SO
    texts, rest, at = {}, bytearray(), 0
    mark = secrets.token_hex(16)
    for number, (start, end) in enumerate(found):
        text = _text(body, start, end)
        if text is None:
            return NOT_SO
        stand_in = f"{mark}{number}"
        texts[stand_in] = text
        rest += body[at:start] + stand_in.encode()
        at = end
    rest += body[at:]
    try:
        return _filled(msgspec.json.decode(rest), texts)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NOT_SO


def _long_strings(body: bytes) -> list[tuple[int, int]]:
    """Return where the long strings are, without their quotes; nothing where there is much besides."""
    found, quotes, rest_bytes = [], _quotes(body), len(body)
    for number, start in enumerate(quotes):
        end = next(quotes, None)
        if end is None or number > _MOST_QUOTES:
            return []
        if end - start > LONG_BYTES:
            found.append((start + 1, end))
            rest_bytes -= end - start
    return found if rest_bytes <= LONG_BYTES else []


def _quotes(body: bytes) -> Iterator[int]:
    """Yield where strings begin and end."""
    for low in range(0, len(body), PIECE_BYTES):
        at = low - 1
        while (at := body.find(b'"', at + 1, low + PIECE_BYTES)) >= 0:
            if not _is_escaped(body, at):
                yield at
        time.sleep(_PAUSE_S)


def _is_escaped(body: bytes, at: int) -> bool:
    first = at
    while first and body[first - 1] == ord("\\"):
        first -= 1
    return (at - first) % 2 == 1


def _text(body: bytes, start: int, end: int) -> str | None:
    """Return what stands between two quotes; None where it is not valid."""
    pieces: list[str] = []
    while start < end:
        cut = _cut(body, start, end)
        try:
            pieces.append(msgspec.json.decode(b'"%b"' % body[start:cut], type=str))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        start = cut
        time.sleep(_PAUSE_S)
    return _joined(pieces) if all(map(str.isascii, pieces)) else "".join(pieces)


def _joined(pieces: list[str]) -> str:
    """Return what `join` does, of ASCII alone; it would hold the lock while the system finds pages for all of that."""
    import ctypes  # is for this alone

    api = ctypes.pythonapi
    make, copy = api.PyUnicode_New, api.PyUnicode_CopyCharacters
    make.argtypes, make.restype = (ctypes.c_ssize_t, ctypes.c_uint32), ctypes.c_void_p
    copy.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.py_object, ctypes.c_ssize_t, ctypes.c_ssize_t)
    copy.restype = ctypes.c_ssize_t
    made, at = make(sum(map(len, pieces)), 127), 0  # can be written to as long as no name in Python refers to it
    for piece in pieces:
        at += copy(made, at, piece, 0, len(piece))
        time.sleep(_PAUSE_S)
    text: str = ctypes.cast(made, ctypes.py_object).value
    api.Py_DecRef(ctypes.py_object(text))  # the reference that it was made with
    return text


def _cut(body: bytes, start: int, end: int) -> int:
    """Return where a piece from `start` on may end: inside of no character and no escape."""
    cut = min(end, start + PIECE_BYTES)
    while start < cut < end and (body[cut] & 0xC0 == 0x80 or b"\\" in body[cut - _LONGEST_ESCAPE : cut]):
        cut -= 1
    return cut if cut > start else end


def _filled(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, dict):
        return {texts.get(key, key): _filled(each, texts) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, texts) for each in value]
    return value
