"""A large answer as JSON: written piece by piece, so that others are hardly held up.

An encoder holds Python's lock until it is through, and what is on other threads, the event loop too, waits for it. So
lists, arrays and objects are cut into pieces, each of which is written by itself, and after it there is a pause. What
comes of it is what `codec.encode` makes of the whole, errors too.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from typing import Any, Final

from faas import codec, large_memory
from faas.engine.owned import MANY, TOGETHER, num_values, pieces

_PAUSE_BYTES: Final = 1 << 15


def encode(held: list[Any]) -> bytes:
    """Write the value that is held as JSON, on a thread of its own, and let go of it.

    Raises:
        HandlerError: a part of it is of a type that JSON has no form for.
    """
    written, rested_at = io.BytesIO(), 0  # it grows in place
    for text in _texts(held[0]):
        if written.write(text) and written.tell() - rested_at > _PAUSE_BYTES:
            rested_at = written.tell()
            time.sleep(large_memory.PAUSE_S)
    large_memory.let_go(held)
    return written.getvalue()


def _texts(value: Any) -> Iterator[bytes]:
    num = num_values(value)
    if num <= MANY:
        yield codec.encode(value)
    elif isinstance(value, dict):
        yield from _fields(value)
    elif hasattr(value, "__getitem__") and len(value):
        yield from _elements(value, num)
    else:
        yield codec.encode(value)


def _elements(values: Any, num: int) -> Iterator[bytes]:
    """Write what has a length, a list or an array."""
    mark = b"["
    for piece in pieces(len(values), num):
        yield mark
        some = values[piece]
        if len(some) == 1 and num_values(some) > MANY:
            yield from _texts(some[0])
        else:
            yield codec.encode(some)[1:-1]
        mark = b","
    yield b"]"


def _fields(values: dict[Any, Any]) -> Iterator[bytes]:
    """Write an object, the fields that are small together."""
    mark, small, num_small = b"{", dict[Any, Any](), 0
    for key, value in values.items():
        num = num_values(value)
        if small and num_small + num > TOGETHER:
            yield mark + codec.encode(small)[1:-1]
            mark, small, num_small = b",", {}, 0
        if num <= TOGETHER:
            small[key] = value
            num_small += max(1, num)
            continue
        yield mark + codec.encode({key: None})[1 : -len(b"null}")]
        yield from _texts(value)
        mark = b","
    if small:
        yield mark + codec.encode(small)[1:-1]
    yield b"}"
