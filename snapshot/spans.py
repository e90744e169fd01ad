"""Which bytes are asked for next.

Spans begin small, so that what comes first is whole soon, grow, so that few requests are made, and end small, so that
all streams end at about the same time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from snapshot.digests import CHUNK_BYTES

MAX_SPAN_BYTES = 64 << 20


@dataclass(frozen=True)
class Span:
    """Consecutive chunks of a file, by its digest, as bytes from `begin` to `end`."""

    digest: str
    begin: int
    end: int

    @property
    def num_bytes(self) -> int:
        """Its length."""
        return self.end - self.begin


def runs(digest: str, num_bytes: int, chunks: Sequence[int]) -> list[Span]:
    """The chunks, in order, as few spans."""
    found: list[Span] = []
    for index in chunks:
        begin, end = index * CHUNK_BYTES, min((index + 1) * CHUNK_BYTES, num_bytes)
        if found and found[-1].end == begin:
            begin = found.pop().begin
        found.append(Span(digest, begin, end))
    return found


def cut(spans: Iterable[Span], num_streams: int) -> list[Span]:
    """The same bytes in the same order, in the spans that `num_streams` take one after another.

    Each is at most half of an equal share of what is then left ("guided self-scheduling", Polychronopoulos and Kuck,
    1987), and of what went before; in whole chunks, at most MAX_SPAN_BYTES and at least one chunk.
    """
    spans = list(spans)
    left, gone = sum(span.num_bytes for span in spans), 0
    pieces: list[Span] = []
    for span in spans:
        begin = span.begin
        while begin < span.end:
            share = min(min(left, gone) // (2 * num_streams), MAX_SPAN_BYTES) // CHUNK_BYTES * CHUNK_BYTES
            end = min(begin + max(share, CHUNK_BYTES), span.end)
            pieces.append(Span(span.digest, begin, end))
            left, gone = left - (end - begin), gone + (end - begin)
            begin = end
    return pieces
