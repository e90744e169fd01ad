"""Content addresses, by chunks.

A file is digested in consecutive pieces of `CHUNK_BYTES`, the last one shorter, none for an empty file. Its content
address is the BLAKE3 digest of its chunks' digests, as raw bytes, one after the other. So bytes that arrive in pieces,
in any order, are checked piece by piece, and the pieces vouch for the whole without reading it again.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from blake3 import blake3

CHUNK_BYTES = 8 << 20

# BLAKE3, 32 bytes as lower-case hexadecimal digits.
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
# The same where there are many: matching the pattern takes most of the time that a manifest takes. `are_digests` looks.
ChunkDigest = Annotated[str, msgspec.Meta(min_length=64, max_length=64)]
Addressed = tuple[str, tuple[str, ...]]


class ChunkHasher:
    """Digests a file that is handed over from its beginning to its end, in pieces of any size."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self._chunks: list[str] = []
        self._hasher = blake3()
        self._room = CHUNK_BYTES

    def update(self, content: bytes | memoryview) -> None:
        """Digest the next bytes. A memoryview must be of bytes."""
        rest = memoryview(content)
        self.num_bytes += len(rest)
        while rest:
            piece, rest = rest[: self._room], rest[self._room :]
            self._hasher.update(piece)
            self._room -= len(piece)
            if not self._room:
                self._end_chunk()

    def finish(self) -> Addressed:
        """The content address and the chunks' digests. Nothing can be added afterwards."""
        if self._room < CHUNK_BYTES:
            self._end_chunk()
        return address_of(self._chunks), tuple(self._chunks)

    def _end_chunk(self) -> None:
        self._chunks.append(self._hasher.hexdigest())
        self._hasher = blake3()
        self._room = CHUNK_BYTES


def digest_bytes(content: bytes | memoryview) -> Addressed:
    """The content address and the chunks' digests of a whole file's content."""
    hasher = ChunkHasher()
    hasher.update(content)
    return hasher.finish()


def address_of(chunks: Iterable[str]) -> str:
    """The content address of a file whose chunks have these digests."""
    return blake3(bytes.fromhex("".join(chunks))).hexdigest()


def are_digests(chunks: Iterable[str]) -> bool:
    """Whether all are digests as we spell them, given that they have the length of one."""
    joined = "".join(chunks)
    try:
        return bytes.fromhex(joined).hex() == joined
    except ValueError:
        return False


def chunk_ranges(num_bytes: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each chunk of a file of `num_bytes`."""
    return ((begin, min(begin + CHUNK_BYTES, num_bytes)) for begin in range(0, num_bytes, CHUNK_BYTES))


def num_chunks(num_bytes: int) -> int:
    """How many chunks a file of `num_bytes` has."""
    return -(-num_bytes // CHUNK_BYTES)
