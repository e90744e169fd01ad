"""Whole files into memory of the process's own, by few large reads."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from snapshot.errors import DamagedError, SizeMismatchError
from snapshot.mapping import anonymous

READ_BYTES = 16 << 20
DIRECT_BYTES = 8 << 20
NUM_IN_FLIGHT = 4

Read = Callable[[int, Sequence[memoryview], int], int]
"""As `os.preadv`: descriptor, where to, offset in the file -> bytes read."""


class WholeFile(msgspec.Struct, frozen=True):
    """An open file that is to be read, all of its `num_bytes`; `path` is for messages alone."""

    descriptor: int
    num_bytes: int
    path: Path
    read: Read = os.preadv

    def sequentially(self) -> memoryview:
        """The content, read from begin to end in pieces of READ_BYTES.

        Raises SizeMismatchError when the file ends before, DamagedError when it cannot be read, SnapshotError when
        there is no memory.
        """
        memory = anonymous(self.num_bytes, str(self.path))
        os.posix_fadvise(self.descriptor, 0, self.num_bytes, os.POSIX_FADV_SEQUENTIAL)
        try:
            for begin, piece in _pieces(memory, READ_BYTES):
                self._fill(begin, piece)
        except OSError as error:
            raise self._unreadable(error) from error
        return memory[: self.num_bytes]

    def directly(self) -> memoryview:
        """The content, read past the page cache with several reads in flight; sequentially where that is refused.

        Raises as `sequentially` does.
        """
        # Local: it takes long to import for those who never read so.
        from concurrent.futures import ThreadPoolExecutor

        memory = anonymous(self.num_bytes, str(self.path))  # page by page, as offsets and lengths are: devices want it
        flags = fcntl.fcntl(self.descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self.descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
            with ThreadPoolExecutor(NUM_IN_FLIGHT) as threads:
                for _ in threads.map(lambda piece: self._fill(*piece), _pieces(memory, DIRECT_BYTES)):
                    pass
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise self._unreadable(error) from error
            fcntl.fcntl(self.descriptor, fcntl.F_SETFL, flags)
            return self.sequentially()
        return memory[: self.num_bytes]

    def _fill(self, begin: int, memory: memoryview) -> None:
        """Read from `begin` on until `memory` is full or the file should end."""
        position, end = begin, min(begin + len(memory), self.num_bytes)
        while position < end:
            num_read = self.read(self.descriptor, [memory[position - begin :]], position)
            if not num_read:
                raise SizeMismatchError(self.path, f"ends at byte {position} of {self.num_bytes}: it was cut short")
            position += num_read

    def _unreadable(self, error: OSError) -> DamagedError:
        return DamagedError(self.path, f"cannot be read: {error.strerror}")


def _pieces(memory: memoryview, piece_bytes: int) -> Iterator[tuple[int, memoryview]]:
    return ((begin, memory[begin : begin + piece_bytes]) for begin in range(0, len(memory), piece_bytes))
