"""Streams that fetch chunks into files: each checked as it comes, fetched again where it came wrong or not at all."""

import os
import random
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from blake3 import blake3

from snapshot.arrivals import Arrivals
from snapshot.digests import CHUNK_BYTES
from snapshot.errors import DigestMismatchError, SizeMismatchError, SnapshotError, UnreachableError
from snapshot.ranges import BEYOND_END, Interrupted, RangeReader, Refused
from snapshot.spans import Span

NUM_ATTEMPTS = 6
_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 5.0


class Source(Protocol):
    """Where files are read from, by their digests. For any number of threads."""

    def address(self, digest: str) -> str:
        """What messages call the file."""

    def url(self, digest: str) -> str:
        """An HTTP address that gives ranges of the file. Raises SnapshotError."""

    def renew(self, url: str, refused: Refused) -> bool:
        """Whether something could be done about a refusal, so that `url` made anew may be answered."""

    def error(self, digest: str, refused: Refused) -> SnapshotError:
        """The error that a refusal is."""

    def reader(self) -> RangeReader:
        """A new reader, for one thread."""


@dataclass(frozen=True)
class Partial:
    """A file to fill: open for writing, as long as it will be, and the digests of its chunks.

    head: of a shard, how long its head is, and its digest
    """

    path: Path
    descriptor: int
    num_bytes: int
    chunks: tuple[str, ...]
    head: tuple[int, str] | None = None


class Fetching:
    """Fetches spans of partials from a source and counts their chunks in as `arrivals`."""

    def __init__(self, source: Source, partials: Mapping[str, Partial], arrivals: Arrivals) -> None:
        self._source = source
        self._partials = partials
        self._arrivals = arrivals
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._left: Iterator[Span] = iter(())
        self._streams: list[threading.Thread] = []

    def start(self, spans: Iterable[Span], num_streams: int) -> None:
        """Begin to fetch the spans in their order, `num_streams` at a time. What fails is told to `arrivals`."""
        self._left = iter(spans)
        for number in range(num_streams):
            self._streams.append(threading.Thread(target=self._stream, name=f"pull-{number}", daemon=True))
            self._streams[-1].start()

    def join(self) -> None:
        """Return when all is here, something has failed, or `stop` was called, and no stream is left."""
        for stream in self._streams:
            stream.join()

    def stop(self) -> None:
        """Let all streams end soon."""
        self._stopped.set()

    def _stream(self) -> None:
        reader = self._source.reader()
        try:
            while (span := self._next()) is not None:
                self._fetch(reader, span)
        except BaseException as error:
            self._arrivals.fail(error)
            self.stop()
        finally:
            reader.close()

    def _next(self) -> Span | None:
        with self._lock:
            return None if self._stopped.is_set() else next(self._left, None)

    def _fetch(self, reader: RangeReader, span: Span) -> None:
        chunks = _Chunks(self._partials[span.digest], span, self._arrivals)
        renewed = False
        num_failures = 0
        while chunks.position < span.end:
            url, begun = self._source.url(span.digest), chunks.position
            try:
                with closing(reader.pieces(url, begun, span.end)) as pieces:
                    for piece in pieces:
                        if self._stopped.is_set():
                            return
                        chunks.take(piece)
            except Interrupted as interruption:
                num_failures = 1 if chunks.position > begun else num_failures + 1
                if num_failures == NUM_ATTEMPTS:
                    what = f"could not be read, {num_failures} times in a row: {interruption}; try again later"
                    raise UnreachableError(self._source.address(span.digest), what) from interruption
                self._stopped.wait(delay_s(num_failures, random.random()))
            except Refused as refused:
                if renewed or not self._source.renew(url, refused):
                    raise self._refusal(span, refused) from refused
                renewed = True
            except _WrongChunk as wrong:
                if wrong.index in chunks.wrong:
                    raise self._mismatch(span, wrong) from None
                chunks.again(wrong.index)

    def _refusal(self, span: Span, refused: Refused) -> SnapshotError:
        if refused.code == BEYOND_END:
            partial = self._partials[span.digest]
            what = f"{self._source.address(span.digest)} ends before its {partial.num_bytes} bytes; push it again"
            return SizeMismatchError(partial.path, what)
        return self._source.error(span.digest, refused)

    def _mismatch(self, span: Span, wrong: "_WrongChunk") -> SnapshotError:
        partial = self._partials[span.digest]
        return DigestMismatchError(
            partial.path,
            f"bytes {wrong.index * CHUNK_BYTES} and on of {self._source.address(span.digest)} have digest "
            f"{wrong.found}, the manifest says {partial.chunks[wrong.index]}; remove it there and push it again",
        )


def delay_s(num_failures: int, chance: float) -> float:
    """How long to wait after so many failures in a row: twice as long each time, less up to half of it by `chance`."""
    return min(_FIRST_DELAY_S * 2.0**num_failures, _LONGEST_DELAY_S) * (1 - chance / 2)


class _WrongChunk(Exception):
    def __init__(self, index: int, found: str) -> None:
        self.index = index
        self.found = found


class _Chunks:
    """Writes the bytes of a span as they come, and counts each chunk in when its digest is right.

    Written, not received into a mapping: a write tells when the disk is full, and a fault of a mapping costs more than
    the copy of a piece that is still in the processor's cache.
    """

    def __init__(self, partial: Partial, span: Span, arrivals: Arrivals) -> None:
        self._partial = partial
        self._digest = span.digest
        self._arrivals = arrivals
        self._hasher = blake3()
        self._head = partial.head if span.begin == 0 else None
        self.position = span.begin
        self.wrong: set[int] = set()

    def take(self, piece: memoryview) -> None:
        """Take the next bytes. Raises _WrongChunk when they end a chunk that is not what it should be."""
        while piece:
            index = self.position // CHUNK_BYTES
            end = min((index + 1) * CHUNK_BYTES, self._partial.num_bytes)
            part, piece = piece[: end - self.position], piece[end - self.position :]
            self._hasher.update(part)
            _write(self._partial.descriptor, part, self.position)
            self.position += len(part)
            if self._head is not None and self.position >= self._head[0]:
                self._end_head(*self._head)
            if self.position == end:
                self._end(index)

    def again(self, index: int) -> None:
        """Go back to the beginning of a chunk that came wrong."""
        self.wrong.add(index)
        self.position = index * CHUNK_BYTES

    def _end_head(self, num_bytes: int, digest: str) -> None:
        """All that rebuilding the graph needs of a shard has come, long before its chunk."""
        self._head = None
        if blake3(os.pread(self._partial.descriptor, num_bytes, 0)).hexdigest() == digest:
            self._arrivals.mark_head(self._digest, num_bytes)

    def _end(self, index: int) -> None:
        found = self._hasher.hexdigest()
        self._hasher = blake3()
        if found != self._partial.chunks[index]:
            raise _WrongChunk(index, found)
        self._arrivals.mark(self._digest, (index,))


def _write(descriptor: int, content: memoryview, position: int) -> None:
    while content:
        written = os.pwrite(descriptor, content, position)
        content, position = content[written:], position + written
