"""What an import works on: a model as it was found, its tensors described and not read yet."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from snapshot.errors import DamagedError, SizeMismatchError
from snapshot.format import DTYPE_BITS
from snapshot.mapping import opened
from snapshot.mistaken import HEAD_BYTES, mistaken

# A whole number of elements of every type; small, so that converting a piece stays in the processor's caches.
PIECE_BYTES = 4 << 20

Pieces = Callable[[], Iterator[memoryview | bytes]]


@dataclass(frozen=True, eq=False)
class Incoming:
    """A tensor of another format.

    dtype: safetensors' name of its type
    pieces: reads its elements in C order, in runs of whole elements, each time it is called
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    pieces: Pieces

    @property
    def num_bytes(self) -> int:
        """Bytes of all elements."""
        return prod(self.shape) * DTYPE_BITS[self.dtype] // 8


@dataclass(frozen=True, eq=False)
class Model:
    """A model that can be imported.

    tensors: in load order
    aliases: further names, each with the name of the tensor that it stands for
    files: path -> the file to keep beside the tensors, or its content
    config: what config.json among them says, if it is there
    default_dtype: safetensors' name of the type to convert to unless another is asked for; None converts nothing
    metadata: what the files with the tensors say beside them
    notes: what the user should know
    """

    tensors: tuple[Incoming, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path | bytes] = field(default_factory=dict)
    config: Mapping[str, object] | None = None
    default_dtype: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def in_file(path: Path, begin: int, num_bytes: int) -> Pieces:
    """The bytes of a file from `begin` on, read as they are asked for. Raises SizeMismatchError when they end early."""

    def pieces() -> Iterator[bytes]:
        with opened(path) as descriptor:
            position, end = begin, begin + num_bytes
            while position < end:
                piece = _read_exactly(descriptor, min(PIECE_BYTES, end - position), position)
                if piece is None:
                    raise SizeMismatchError(path, f"ends before byte {end}: it was cut short while it was read")
                yield piece
                position += len(piece)

    return pieces


def _read_exactly(descriptor: int, num_bytes: int, offset: int) -> bytes | None:
    """One read, where the system gives all at once; None where the file ends before."""
    content = os.pread(descriptor, num_bytes, offset)
    while 0 < len(content) < num_bytes:
        more = os.pread(descriptor, num_bytes - len(content), offset + len(content))
        if not more:
            break
        content += more
    return content if len(content) == num_bytes else None


def first_bytes(path: Path) -> bytes:
    """The first bytes of a file of a model. Raises DamagedError where they are those of something in its place."""
    try:
        with open(path, "rb") as file:
            begin = file.read(HEAD_BYTES)
    except OSError as error:
        raise DamagedError(path, f"cannot be read: {error.strerror}") from error
    if (other := mistaken(begin)) is not None:
        raise DamagedError(path, other)
    return begin


def in_memory(memory: memoryview) -> Iterator[memoryview]:
    """Bytes in memory, in pieces."""
    return (memory[begin : begin + PIECE_BYTES] for begin in range(0, len(memory), PIECE_BYTES))


def listed(names: Iterable[str], limit: int = 10) -> str:
    """Names in a message: the first few, and how many more there are."""
    every = sorted(names)
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more
