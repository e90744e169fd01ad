"""Where tensors of files go in device memory: one allocation a file, tensors lying in it as they lie in the file.

Pure. What lies close together in a file stays together, so that few reads and few copies carry many tensors; bytes
between them that nobody asked for go along. The *stream* is all that is copied, in the order of files and extents:
a tensor has arrived once the stream has passed its last byte.
"""

from collections.abc import Iterable, Sequence

import msgspec

# Carrying a gap costs less than a copy of its own below this size.
_MAX_GAP_BYTES = 1 << 16
_EXTENT_ALIGNMENT = 256  # what device allocators give
_TENSOR_ALIGNMENT = 16  # the widest load of a kernel


class Span(msgspec.Struct, frozen=True):
    """A tensor's bytes in its file."""

    begin: int
    num_bytes: int

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.begin + self.num_bytes


class Extent(msgspec.Struct, frozen=True):
    """A run of bytes of file number `file`, from `begin` on, that goes to `at` in that file's allocation."""

    file: int
    begin: int
    num_bytes: int
    at: int

    @property
    def end(self) -> int:
        """The first byte of the file after it."""
        return self.begin + self.num_bytes


class Place(msgspec.Struct, frozen=True):
    """Where a span goes in the allocation of its file, and how many bytes of the stream bring it whole."""

    file: int
    at: int
    num_bytes: int
    arrives_bytes: int


class Layout(msgspec.Struct, frozen=True):
    """Where everything goes.

    allocations: bytes to allocate for each file
    places: one for each span of each file, in the order given
    extents: the stream
    """

    allocations: tuple[int, ...]
    places: tuple[tuple[Place, ...], ...]
    extents: tuple[Extent, ...]


def lay_out(files: Iterable[Sequence[Span]]) -> Layout:
    """Lay out the spans of each file; spans may come in any order and may overlap."""
    allocations: list[int] = []
    places: list[tuple[Place, ...]] = []
    extents: list[Extent] = []
    streamed = 0
    for number, spans in enumerate(files):
        runs = _extents(number, spans)
        found: dict[int, Place] = {}
        for extent, members in runs:
            for index in members:
                inside = spans[index].begin - extent.begin
                arrives = streamed + inside + spans[index].num_bytes
                found[index] = Place(number, extent.at + inside, spans[index].num_bytes, arrives)
            streamed += extent.num_bytes
            extents.append(extent)
        places.append(tuple(found[index] for index in range(len(spans))))
        allocations.append(max((extent.at + extent.num_bytes for extent, _ in runs), default=0))
    return Layout(tuple(allocations), tuple(places), tuple(extents))


def _extents(file: int, spans: Sequence[Span]) -> list[tuple[Extent, list[int]]]:
    """The runs of a file, each with the indices of its spans."""
    runs: list[tuple[Extent, list[int]]] = []
    for index in sorted(range(len(spans)), key=lambda i: (spans[i].begin, spans[i].num_bytes)):
        span = spans[index]
        if runs and _goes_along(runs[-1][0], span):
            extent, members = runs[-1]
            longer = max(extent.end, span.end) - extent.begin
            runs[-1] = (msgspec.structs.replace(extent, num_bytes=longer), [*members, index])
        else:
            after = runs[-1][0].at + runs[-1][0].num_bytes if runs else 0
            at = after + -after % _EXTENT_ALIGNMENT
            runs.append((Extent(file, span.begin, span.num_bytes, at), [index]))
    return runs


def _goes_along(extent: Extent, span: Span) -> bool:
    is_near = span.begin - extent.end <= _MAX_GAP_BYTES
    return is_near and (span.begin < extent.end or (span.begin - extent.begin) % _TENSOR_ALIGNMENT == 0)
