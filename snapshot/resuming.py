"""What a pull that was killed has left: the chunks of a partial file that are right."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from blake3 import blake3

from snapshot.digests import CHUNK_BYTES, chunk_ranges
from snapshot.fetching import Partial

_NUM_THREADS = 4


def chunks_there(partial: Partial) -> list[int]:
    """The chunks that lie in the file already, by their digests. Holes are not read."""
    written = sorted(_written(partial))
    if not written:
        return []
    ranges = list(chunk_ranges(partial.num_bytes))

    def is_right(index: int) -> bool:
        begin, end = ranges[index]
        return blake3(os.pread(partial.descriptor, end - begin, begin)).hexdigest() == partial.chunks[index]

    with ThreadPoolExecutor(_NUM_THREADS) as threads:
        return [index for index, right in zip(written, threads.map(is_right, written), strict=True) if right]


def _written(partial: Partial) -> set[int]:
    """The chunks in which anything was ever written."""
    found: set[int] = set()
    for begin, end in _extents(partial.descriptor):
        found.update(range(begin // CHUNK_BYTES, min(-(-end // CHUNK_BYTES), len(partial.chunks))))
    return found


def _extents(descriptor: int) -> Iterator[tuple[int, int]]:
    """Begin and end of everything in the file that is no hole. One extent where the file system cannot tell."""
    end = 0
    while True:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing but a hole, or nothing, is left
            return
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, end
