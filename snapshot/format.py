"""Headers of tensor files, in the safetensors format.

A file is: the header's length (8 bytes, little-endian), the header (JSON: name -> dtype, shape, begin and end of its
bytes), the data. The format allows no hole between tensors. We start every tensor on a multiple of `ALIGNMENT` bytes
of the file, so that a mapping can be used in place, and fill the gaps with entries named `FILLER_PREFIX` + number.

Nothing here allocates from a length that was not first compared with the file's size and with `MAX_HEADER_BYTES`;
the writer holds the same limit, so what was written can be read.
"""

import os
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from snapshot.errors import BadHeaderError, HeaderTooLargeError, SizeMismatchError
from snapshot.mistaken import HEAD_BYTES, of_another_format

ALIGNMENT = 64
MAX_HEADER_BYTES = 100_000_000
FILLER_PREFIX = "~filler/"
METADATA_KEY = "__metadata__"
_LENGTH_BYTES = 8
MIN_HEAD_BYTES = _LENGTH_BYTES + len("{}")
MAX_HEAD_BYTES = _LENGTH_BYTES + MAX_HEADER_BYTES

# Bits of one element. A type that is not listed is carried, its size unchecked, and refused when it is asked for.
DTYPE_BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8,
    "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip

# Bounded, so that a hostile shape costs nothing to multiply out; numpy and torch stop at 64 dimensions too.
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Shape = Annotated[tuple[Natural, ...], msgspec.Meta(max_length=64)]


# A tensor's bytes, in pieces of any size.
Content = Iterable[memoryview | bytes]


class Writable(Protocol):
    """What a tensor file is written to."""

    def write(self, content: bytes | memoryview, /) -> object:
        """Append `content`."""


class Entry(msgspec.Struct, frozen=True):
    """One tensor in a header. `data_offsets`: begin and end of its bytes, counted from the end of the header.

    What else a writer has noted of the tensor is passed over, as other readers do.
    """

    dtype: str
    shape: Shape
    data_offsets: tuple[Natural, Natural]


class Header(msgspec.Struct, frozen=True):
    """A header that was read and found consistent. `data_start`: where the data begins in the file."""

    entries: dict[str, Entry]
    metadata: dict[str, str]
    data_start: int
    file_bytes: int


class Placement(msgspec.Struct, frozen=True):
    """A tensor about to be written: its name, safetensors type, shape and size."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_bytes: int


class Layout(msgspec.Struct, frozen=True):
    """Where everything in a new file goes. `offsets`: first byte in the file, one for each placement."""

    head: bytes
    offsets: tuple[int, ...]
    file_bytes: int


def lay_out(placements: Sequence[Placement], *, max_header_bytes: int = MAX_HEADER_BYTES) -> Layout:
    """The head (length and header) and the offsets of a file that holds `placements` in this order.

    Raises HeaderTooLargeError when no reader would open the file.
    """
    entries: dict[str, Entry] = {}
    begins: list[int] = []
    position = 0
    for placement in placements:
        if gap := -position % ALIGNMENT:
            filler = f"{FILLER_PREFIX}{len(entries)}"
            entries[filler] = Entry("U8", (gap,), (position, position + gap))
            position += gap
        begins.append(position)
        end = position + placement.num_bytes
        entries[placement.name] = Entry(placement.dtype, placement.shape, (position, end))
        position = end
    encoded = msgspec.json.encode(entries)
    encoded += b" " * (-(_LENGTH_BYTES + len(encoded)) % ALIGNMENT)
    if len(encoded) > max_header_bytes:
        raise HeaderTooLargeError(
            f"a header of {len(encoded)} bytes for {len(placements)} tensors passes the limit of {max_header_bytes} "
            f"that readers hold; freeze with smaller shards or keep fewer, larger tensors"
        )
    head = len(encoded).to_bytes(_LENGTH_BYTES, "little") + encoded
    return Layout(head, tuple(len(head) + begin for begin in begins), len(head) + position)


def write_file(file: Writable, layout: Layout, contents: Iterable[Content]) -> None:
    """Write a whole tensor file: the head, then each tensor's bytes at its offset, zeros in the gaps."""
    file.write(layout.head)
    position = len(layout.head)
    for offset, content in zip(layout.offsets, contents, strict=True):
        if offset < position:
            raise ValueError(f"wrote a tensor up to byte {position}, where the next is laid out at {offset}")
        file.write(b"\0" * (offset - position))
        position = offset
        for piece in content:
            file.write(piece)
            position += len(piece)
    if position != layout.file_bytes:
        raise ValueError(f"wrote {position} bytes of a file laid out for {layout.file_bytes}")


def read_header(path: Path, descriptor: int, *, max_header_bytes: int = MAX_HEADER_BYTES) -> Header:
    """Read and check the header of the open tensor file `descriptor`; `path` is for messages alone.

    Raises BadHeaderError or SizeMismatchError; allocates no more than the file holds and the limit allows.
    """
    file_bytes = os.fstat(descriptor).st_size
    length = _header_bytes(path, os.pread(descriptor, HEAD_BYTES, 0), file_bytes, max_header_bytes)
    encoded = os.pread(descriptor, length, _LENGTH_BYTES)
    if len(encoded) != length:
        raise SizeMismatchError(path, f"was cut short while it was read, at {len(encoded)} of {length} bytes")
    return parse_header(path, encoded, file_bytes)


def parse_head(path: Path, memory: memoryview) -> Header:
    """Check the header of the whole tensor file in `memory`; `path` is for messages alone. Raises as `read_header`."""
    length = _header_bytes(path, bytes(memory[:HEAD_BYTES]), len(memory), MAX_HEADER_BYTES)
    return parse_header(path, bytes(memory[_LENGTH_BYTES : _LENGTH_BYTES + length]), len(memory))


def _header_bytes(path: Path, begin: bytes, file_bytes: int, max_header_bytes: int) -> int:
    """The header's length, once it is one that may be read. `begin`: the first bytes of the file, or all it has."""
    if begin[_LENGTH_BYTES : _LENGTH_BYTES + 1] != b"{" and (other := of_another_format(begin)) is not None:
        raise BadHeaderError(path, other)
    if len(begin) < _LENGTH_BYTES:
        raise BadHeaderError(path, f"{file_bytes} bytes are too few for a tensor file")
    length = int.from_bytes(begin[:_LENGTH_BYTES], "little")
    if length > file_bytes - _LENGTH_BYTES:
        raise BadHeaderError(path, f"claims a header of {length} bytes in a file of {file_bytes}")
    if length > max_header_bytes:
        raise BadHeaderError(path, f"claims a header of {length} bytes, more than the limit of {max_header_bytes}")
    return length


def parse_header(path: Path, encoded: bytes, file_bytes: int) -> Header:
    """Check a header against itself and against the size of its file; `path` is for messages alone."""
    try:
        raw = msgspec.json.decode(encoded, type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(raw.pop(METADATA_KEY, b"{}"), type=dict[str, str] | None) or {}
        entries = {name: _decode_entry(value) for name, value in raw.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadHeaderError(path, f"the header is not one of the safetensors format: {error}") from error
    _check_repetition(path, encoded, len(entries))
    data_start = _LENGTH_BYTES + len(encoded)
    _check_coverage(path, entries, file_bytes - data_start)
    for name, entry in entries.items():
        bits = DTYPE_BITS.get(entry.dtype)
        num_bytes = entry.data_offsets[1] - entry.data_offsets[0]
        if bits is not None and prod(entry.shape) * bits != num_bytes * 8:
            raise BadHeaderError(
                path, f"tensor {name!r}: {entry.dtype} of shape {list(entry.shape)} does not take {num_bytes} bytes"
            )
    return Header(entries, metadata, data_start, file_bytes)


_decode_entry = msgspec.json.Decoder(Entry).decode


def _check_repetition(path: Path, encoded: bytes, num_entries: int) -> None:
    """Refuse a name that is given twice, of which decoders take the last without a word.

    Looked for only where there may be one: each entry says its offsets once.
    """
    if encoded.count(b'"data_offsets"') == num_entries and b"\\" not in encoded:
        return
    import json  # seldom needed, and not by those who thaw

    def without(pairs: list[tuple[str, object]]) -> None:
        met: set[str] = set()
        for name, _ in pairs:
            if name in met:
                raise BadHeaderError(path, f"gives {name!r} twice")
            met.add(name)

    json.loads(encoded, object_pairs_hook=without)


def _check_coverage(path: Path, entries: dict[str, Entry], data_bytes: int) -> None:
    """Refuse overlaps and holes."""
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        begin, end = entry.data_offsets
        if begin != position or end < begin:
            raise BadHeaderError(path, f"tensor {name!r} lies at bytes {begin} to {end}, expected it at {position}")
        position = end
    if position != data_bytes:
        raise SizeMismatchError(path, f"the header describes {position} bytes of data, the file holds {data_bytes}")
