import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshot import digests
from snapshot.digests import CHUNK_BYTES, ChunkHasher, address_of, chunk_ranges, digest_bytes, num_chunks

CONTENT = bytes(range(251)) * (2 * CHUNK_BYTES // 251 + 1)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES])
def test_the_address_is_the_digest_of_the_chunks_digests(size: int) -> None:
    content = CONTENT[:size]
    raw = [blake3(content[at : at + CHUNK_BYTES]) for at in range(0, size, CHUNK_BYTES)]
    digest, chunks = digest_bytes(content)
    assert chunks == tuple(chunk.hexdigest() for chunk in raw)
    assert digest == blake3(b"".join(chunk.digest() for chunk in raw)).hexdigest() == address_of(chunks)
    assert len(chunks) == num_chunks(size)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 10**12 + 7])
def test_the_ranges_cover_a_file_from_end_to_end(size: int) -> None:
    ranges = list(chunk_ranges(size))
    assert len(ranges) == num_chunks(size)
    assert [begin for begin, _ in ranges] == [0, *(end for _, end in ranges[:-1])][: len(ranges)]
    assert all(0 < end - begin <= CHUNK_BYTES for begin, end in ranges)
    assert (ranges[-1][1] if ranges else 0) == size


@settings(max_examples=50, deadline=None)
@given(pieces=st.lists(st.integers(0, 40), max_size=30))
def test_the_size_of_the_pieces_does_not_matter(pieces: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "CHUNK_BYTES", 16)
        whole, hasher, at = CONTENT[: sum(pieces)], ChunkHasher(), 0
        for piece in pieces:
            hasher.update(memoryview(whole)[at : at + piece])
            at += piece
        assert hasher.num_bytes == at
        assert hasher.finish() == digest_bytes(whole)
        assert hasher.finish()[1] == tuple(blake3(whole[b : b + 16]).hexdigest() for b in range(0, at, 16))
