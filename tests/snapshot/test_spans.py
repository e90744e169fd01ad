import pytest

from snapshot.digests import CHUNK_BYTES
from snapshot.spans import MAX_SPAN_BYTES, Span, cut, runs


def test_consecutive_chunks_are_one_run() -> None:
    assert runs("d", 3 * CHUNK_BYTES + 5, [0, 1, 3]) == [
        Span("d", 0, 2 * CHUNK_BYTES),
        Span("d", 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 5),
    ]
    assert runs("d", 0, []) == []


@pytest.mark.parametrize("num_streams", [1, 4, 8])
@pytest.mark.parametrize("sizes", [[1], [CHUNK_BYTES], [300 * CHUNK_BYTES + 1, 7, 40 * CHUNK_BYTES]])
def test_cutting_keeps_every_byte_in_order_on_chunks(sizes: list[int], num_streams: int) -> None:
    spans = [Span(str(number), 0, size) for number, size in enumerate(sizes)]
    pieces = cut(spans, num_streams)
    joined: dict[str, int] = {}
    for piece in pieces:
        assert piece.begin == joined.get(piece.digest, 0)
        assert piece.begin % CHUNK_BYTES == 0
        assert 0 < piece.num_bytes <= MAX_SPAN_BYTES
        joined[piece.digest] = piece.end
    assert list(joined.values()) == sizes
    assert [piece.digest for piece in pieces] == sorted(piece.digest for piece in pieces)


def test_spans_are_small_at_the_beginning_and_at_the_end() -> None:
    sizes = [piece.num_bytes for piece in cut([Span("d", 0, 512 * CHUNK_BYTES)], 4)]
    largest = sizes.index(max(sizes))
    assert max(sizes) == MAX_SPAN_BYTES
    assert sizes[:8] == sizes[-8:] == [CHUNK_BYTES] * 8
    assert sizes[:largest] == sorted(sizes[:largest])
    assert sizes[largest:] == sorted(sizes[largest:], reverse=True)
    assert len(sizes) < 512 / 4
