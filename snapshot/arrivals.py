"""What has arrived of the files that are being pulled, chunk by chunk, and who waits for it."""

import threading
from collections.abc import Callable, Iterable, Mapping

from snapshot.digests import CHUNK_BYTES, num_chunks

Progress = Callable[[int, int], None]
"""Called with the bytes done and all bytes, from any thread, one at a time."""


class Arrivals:
    """Counts chunks in and lets others wait for them. Files go by their digests; `sizes` are their bytes.

    A failure reaches everybody who waits for what has not arrived, and whoever waits for all.
    """

    def __init__(self, sizes: Mapping[str, int], progress: Progress | None = None) -> None:
        self._sizes = dict(sizes)
        self._missing = {digest: set(range(num_chunks(size))) for digest, size in sizes.items()}
        self._changed = threading.Condition()
        self._heads: dict[str, int] = {}  # bytes at a file's beginning that are here before their chunk
        self._error: BaseException | None = None
        self._progress = progress
        self.total_bytes = sum(sizes.values())
        self.arrived_bytes = 0

    def mark(self, digest: str, chunks: Iterable[int] | None = None) -> None:
        """Count chunks in, all of the file where they are not given."""
        with self._changed:
            missing = self._missing[digest]
            new = missing.intersection(missing if chunks is None else chunks)
            missing -= new
            size = self._sizes[digest]
            self.arrived_bytes += sum(min(CHUNK_BYTES, size - index * CHUNK_BYTES) for index in new)
            if self._progress is not None:
                self._progress(self.arrived_bytes, self.total_bytes)
            self._changed.notify_all()

    def mark_head(self, digest: str, num_bytes: int) -> None:
        """Let the first bytes of a file be used: they are here and right, the rest of their chunk is still to come."""
        with self._changed:
            self._heads[digest] = num_bytes
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Tell everybody that no more will come. The first failure is the one that counts."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def check(self) -> None:
        """Raises the error that `fail` was given."""
        if self._error is not None:
            raise self._error

    def missing(self, digest: str) -> list[int]:
        """The chunks of a file that are not here, in order."""
        with self._changed:
            return sorted(self._missing[digest])

    def wait(self, digest: str, begin: int, end: int) -> None:
        """Return when the bytes from `begin` to `end` of a file are here. Raises the error that `fail` was given."""
        if end <= begin:
            return
        wanted = range(begin // CHUNK_BYTES, num_chunks(end))
        missing = self._missing[digest]
        self._wait(lambda: missing.isdisjoint(wanted) or end <= self._heads.get(digest, 0))

    def wait_file(self, digest: str) -> None:
        """Return when a file is here. Raises the error that `fail` was given."""
        missing = self._missing[digest]
        self._wait(lambda: not missing)

    def wait_all(self) -> None:
        """Return when all is here and nothing has failed. Raises the error that `fail` was given."""
        self._wait(lambda: self._error is None and not any(self._missing.values()))

    def _wait(self, here: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: here() or self._error is not None)
            if not here():
                assert self._error is not None
                raise self._error
