"""Reading files into the page cache ahead of their use."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Final

from snapshot.errors import SnapshotError
from snapshot.mapping import opened

_STEP_BYTES: Final = 128 << 10
"""The read-ahead window that Linux gives a device. Of a longer step it reads a window, however long the step."""


class ReadAhead:
    """Brings files into the page cache, one after another and each from its begin to its end.

    A thread does that meanwhile, and ends when all has been asked for. It has a descriptor of its own, so that what it
    reads and what is faulted in meanwhile do not take each other for one reader that jumps about. It comes in single
    pages. MADV_POPULATE_READ, or reading as a file's reader does, brings large folios, which each process maps faster
    (2 GB were inferred with for the first time in .40 s, and not .53), but which the kernel takes from memory that was
    free for long: under a host that takes such memory back and gives it anew page by page, the first answer from a cold
    cache took 2 to 5 s, and 1.1 to 1.3 s in single pages, as long as those lay in memory that was in use just before.

    It begins when it is told to, once the graph has been rebuilt: a thread would be in the way of that for longer than
    what the disk could have read meanwhile is worth.

    background: do it in a thread; else in `begin`, and the process keeps its one thread
    """

    def __init__(self, *, background: bool = True) -> None:
        self._background = background
        self._waiting: list[tuple[Path, int]] = []

    def add(self, path: Path, num_bytes: int) -> None:
        """Read a file ahead, too, after those that were added before."""
        self._waiting.append((path, num_bytes))

    def begin(self) -> None:
        """Read what has been added."""
        added, self._waiting = self._waiting, []
        if added and self._background:
            threading.Thread(target=_read_all, args=(added,), name="snapshot read-ahead", daemon=True).start()
        else:
            _read_all(added)


def _read_all(files: list[tuple[Path, int]]) -> None:
    for path, num_bytes in files:
        with contextlib.suppress(SnapshotError, OSError), opened(path, num_bytes) as descriptor:
            for begin in range(0, num_bytes, _STEP_BYTES):
                os.posix_fadvise(descriptor, begin, _STEP_BYTES, os.POSIX_FADV_WILLNEED)
