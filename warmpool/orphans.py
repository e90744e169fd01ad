"""Processes whose parent has ended: those that a worker leaves behind end with it, whatever session they are in.

A process that is meant to outlive its parent (a browser's driver, a daemon) makes a session of its own, so that no
signal to the worker's group reaches it. The kernel hands it to its nearest ancestor that adopts orphans. Workers do, so
that it stays below its worker for as long as that lives; and zygotes, which end what comes to them.
"""

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)


def adopt() -> None:
    """Become the parent of descendants whose own has ended; processes that are forked from here do not inherit that."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """Return this process's children, of its main thread; none where the system does not tell."""
    pid = os.getpid()
    try:
        with open(f"/proc/self/task/{pid}/children") as listed:
            return set(map(int, listed.read().split()))
    except OSError:
        return set()
