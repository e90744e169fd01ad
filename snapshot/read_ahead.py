"""Reading mapped files ahead of their use."""

import mmap
import threading

from snapshot.mapping import advise

_STEP_BYTES = 2 << 20  # one large folio; whoever maps or faults meanwhile may have to wait for a whole step
_MADV_POPULATE_READ = 22  # Linux 5.14; not named by Python's mmap


class ReadAhead:
    """Brings mapped files into memory, one after another and each from its begin to its end.

    The kernel reads only one read-ahead window for a MADV_WILLNEED, however long the range, and it reads single
    pages then. Touching the pages in order, as MADV_POPULATE_READ does, makes it read ahead by itself, in large folios
    where the file system has them, which also map faster. A thread does that meanwhile, and ends when all is there.

    It begins when it is told to, once the graph has been rebuilt: a thread would be in the way of that, and of the page
    table, for longer than what the disk could have read meanwhile is worth.

    background: do it in a thread; else `begin` returns when all is there, and the process keeps its one thread
    """

    def __init__(self, *, background: bool = True) -> None:
        self._background = background
        self._waiting: list[memoryview] = []

    def add(self, memory: memoryview) -> None:
        """Read a mapped file ahead, too, after those that were added before."""
        self._waiting.append(memory)

    def begin(self) -> None:
        """Read what has been added."""
        added, self._waiting = self._waiting, []
        if added and self._background:
            threading.Thread(target=_populate_all, args=(added,), name="snapshot read-ahead", daemon=True).start()
        else:
            _populate_all(added)


def _populate_all(memories: list[memoryview]) -> None:
    while memories:
        memory = memories.pop(0)
        advise(memory, mmap.MADV_HUGEPAGE)
        _populate(memory)
        del memory  # nothing stays mapped for this alone


def _populate(memory: memoryview) -> None:
    for begin in range(0, len(memory), _STEP_BYTES):
        step = memory[begin : begin + _STEP_BYTES]
        if not advise(step, _MADV_POPULATE_READ):  # an older kernel, or the file was cut: then as well as can be
            advise(step, mmap.MADV_WILLNEED)
