"""The head of a GGUF file: metadata and the places of its tensors (ggml's `docs/gguf.md`, versions 2 and 3).

Read here and not with the `gguf` package, which takes seconds for a vocabulary and believes what a file says: no
length is used before it was compared with the bytes that are left.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from snapshot.errors import BadHeaderError

_MARK = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_MAX_DIMENSIONS = 8
_MAX_NESTING = 4
_STRING, _ARRAY = 8, 9
# Value type -> how struct reads one of it.
_SCALARS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_MIN_STRING_BYTES, _MIN_ARRAY_BYTES, _MIN_TENSOR_BYTES, _MIN_PAIR_BYTES = 8, 12, 24, 13


@dataclass(frozen=True)
class GgufTensor:
    """shape: as numpy has it, slowest dimension first; kind: ggml's number of the type; offset: in the file."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, eq=False)
class GgufHeader:
    """metadata: key -> value; tensors: by name, in the order of the file."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]


class _Cursor:
    """Reads little-endian values one after the other. Raises ValueError at the end of the bytes."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self.position = 0

    @property
    def left(self) -> int:
        return len(self._content) - self.position

    def take(self, num_bytes: int) -> memoryview:
        if num_bytes > self.left:
            raise ValueError(f"{num_bytes} bytes are claimed at byte {self.position}, {self.left} are left")
        begin, self.position = self.position, self.position + num_bytes
        return self._content[begin : self.position]

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def count(self, item_bytes: int) -> int:
        """A number of items that take at least `item_bytes` each."""
        count: int = self.number("Q")
        if count * item_bytes > self.left:
            raise ValueError(f"{count} items are claimed at byte {self.position}, where {self.left} bytes are left")
        return count

    def text(self) -> str:
        # Tokens may be any bytes: what is no text stays as it is, and is written back so.
        return str(self.take(self.count(1)), "utf-8", "surrogateescape")

    def value(self, kind: int, nesting: int = 0) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY and nesting < _MAX_NESTING:
            return self._array(self.number("I"), nesting + 1)
        if kind not in _SCALARS:
            raise ValueError(f"a value of type {kind} at byte {self.position}, which there is not")
        return self.number(_SCALARS[kind])

    def _array(self, kind: int, nesting: int) -> list[Any]:
        if code := _SCALARS.get(kind):
            item_bytes = struct.calcsize(f"<{code}")
            count = self.count(item_bytes)
            return list(struct.unpack(f"<{count}{code}", self.take(count * item_bytes)))
        least = _MIN_STRING_BYTES if kind == _STRING else _MIN_ARRAY_BYTES
        return [self.value(kind, nesting) for _ in range(self.count(least))]


def parse_gguf(path: Path, content: memoryview) -> GgufHeader:
    """The head of the whole file in `content`; `path` is for messages alone.

    Of the tensors, only where they begin is checked: their sizes depend on types that ggml defines.
    Raises BadHeaderError.
    """
    cursor = _Cursor(content)
    try:
        return _parse(cursor)
    except ValueError as error:  # what is no text in UTF-8 among them
        raise BadHeaderError(path, f"is no GGUF file that can be read: {error}") from error


def _parse(cursor: _Cursor) -> GgufHeader:
    if bytes(cursor.take(len(_MARK))) != _MARK:
        raise ValueError("it does not begin with GGUF")
    version = cursor.number("I")
    if version not in _VERSIONS:
        raise ValueError(f"it is of version {version} (or of the other byte order), known are 2 and 3, little-endian")
    num_tensors, num_pairs = cursor.number("Q"), cursor.number("Q")
    if num_tensors * _MIN_TENSOR_BYTES + num_pairs * _MIN_PAIR_BYTES > cursor.left:
        raise ValueError(f"it claims {num_tensors} tensors and {num_pairs} values in {cursor.left} bytes")
    metadata: dict[str, Any] = {}
    for _ in range(num_pairs):
        key = cursor.text()
        if key in metadata:
            raise ValueError(f"it gives {key!r} twice")
        metadata[key] = cursor.value(cursor.number("I"))
    places: dict[str, GgufTensor] = {}
    for _ in range(num_tensors):
        name, place = cursor.text(), _place(cursor)
        if name in places:
            raise ValueError(f"it holds two tensors that are called {name!r}")
        places[name] = place
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
        raise ValueError(f"its alignment is {alignment!r}")
    start = cursor.position + -cursor.position % alignment
    return GgufHeader(
        metadata, {name: GgufTensor(place.shape, place.kind, start + place.offset) for name, place in places.items()}
    )


def _place(cursor: _Cursor) -> GgufTensor:
    num_dimensions = cursor.number("I")
    if num_dimensions > _MAX_DIMENSIONS:
        raise ValueError(f"it claims a tensor of {num_dimensions} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(num_dimensions))[::-1]
    if prod(shape) >= 1 << 62:
        raise ValueError(f"it claims a tensor of shape {list(shape)}")
    return GgufTensor(shape, cursor.number("I"), cursor.number("Q"))
