"""Reading mapped files ahead of their use."""

import mmap
import threading
from collections import deque

from snapshot.mapping import advise

_STEP_BYTES = 2 << 20  # one large folio; whoever maps or faults meanwhile may have to wait for a whole step
_MADV_POPULATE_READ = 22  # Linux 5.14; not named by Python's mmap


class ReadAhead:
    """Brings mapped files into memory, one after another and each from its begin to its end.

    The kernel reads only one read-ahead window for a MADV_WILLNEED, however long the range, and it reads single
    pages then. Touching the pages in order, as MADV_POPULATE_READ does, makes it read ahead by itself, in large folios
    where the file system has them, which also map faster. A thread does that meanwhile, and ends when all is there.

    background: do it in a thread; else `add` returns when the file is there, and the process keeps its one thread
    """

    def __init__(self, *, background: bool = True) -> None:
        self._background = background
        self._waiting: deque[memoryview] = deque()
        self._lock = threading.Lock()
        self._is_running = False

    def add(self, memory: memoryview) -> None:
        """Read a mapped file ahead, after those that were added before."""
        advise(memory, mmap.MADV_HUGEPAGE)
        if not self._background:
            _populate(memory)
            return
        with self._lock:
            self._waiting.append(memory)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="snapshot read-ahead", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                memory = self._waiting.popleft()
            _populate(memory)
            del memory  # or it would stay mapped for as long as this waits for the lock


def _populate(memory: memoryview) -> None:
    for begin in range(0, len(memory), _STEP_BYTES):
        step = memory[begin : begin + _STEP_BYTES]
        if not advise(step, _MADV_POPULATE_READ):  # an older kernel, or the file was cut: then as well as can be
            advise(step, mmap.MADV_WILLNEED)
