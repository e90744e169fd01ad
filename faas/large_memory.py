"""Memory in large pieces, given back so that others are hardly held up.

Whoever drops the last reference to 100 MB holds Python's lock until the system has taken all of its pages back: tens of
milliseconds for one string, and half a second for the numbers of a list. Here pages are given back without the lock,
and lists are taken apart with pauses. Whoever makes millions of lists has them all looked through for cycles again and
again, which takes as long: that is put off.
"""

from __future__ import annotations

import gc
import mmap
import sys
import time
from functools import cache
from typing import Any, Final

LARGE_BYTES: Final = 1 << 20
NUM_TOGETHER: Final = 8192
"""So many values are dealt with at a time."""
PAUSE_S: Final = 1e-4
"""How long who deals with something large rests after each piece: whoever waits for Python's lock gets it then."""

_DONT_NEED: Final = 4  # MADV_DONTNEED of Linux
_OURS: Final = 2  # references to what is in a list and is asked about: the list's, and the question's
_CONTAINERS: Final = (list, dict)
_TEXTS: Final = (bytes, str)
_LONG: Final = 100
_PERHAPS_LONG: Final = frozenset((*_CONTAINERS, *_TEXTS))

_NEVER: Final = 1 << 30


class PutOff:
    """Full collections of Python's are put off while anybody has it so; younger objects are looked through as ever."""

    num_users = 0
    _usual = (0, 0, 0)

    @classmethod
    def begin(cls) -> None:
        """Put them off, until each that began has ended."""
        cls.num_users += 1
        if cls.num_users == 1:
            cls._usual = gc.get_threshold()
            gc.set_threshold(*cls._usual[:2], _NEVER)

    @classmethod
    def end(cls) -> None:
        """Have them again."""
        cls.num_users -= 1
        if cls.num_users == 0:
            gc.set_threshold(*cls._usual)


def let_go(held: list[Any]) -> None:
    """Empty a list, on a thread of its own; what somebody else refers to is left alone.

    For values as JSON has them, and bytes.
    """
    while held:
        kind = type(held[-1])
        if sys.getrefcount(held[-1]) > _OURS:
            held.pop()
        elif kind in _CONTAINERS:
            _take_apart(held)
        else:
            if kind in _TEXTS:
                _give_back(id(held[-1]), sys.getsizeof(held[-1]))
            held.pop()


def _take_apart(held: list[Any]) -> None:
    """Put what is long in the last container of a list in its place, and drop the rest."""
    last = held.pop()
    first = next(iter(last.values() if isinstance(last, dict) else last), None)
    num = NUM_TOGETHER // 8 if isinstance(first, _CONTAINERS) else NUM_TOGETHER
    while last:
        if isinstance(last, dict):
            some = [last.popitem()[1] for _ in range(min(num, len(last)))]
        else:
            some = last[-num:]
            del last[-num:]
        if not _PERHAPS_LONG.isdisjoint(map(type, some)):
            held += [one for one in some if type(one) in _PERHAPS_LONG and len(one) > _LONG]
        del some
        time.sleep(PAUSE_S)


def _give_back(address: int, num_bytes: int) -> None:
    """Have the system take the pages back that are wholly within an object; nobody will look at it again."""
    if num_bytes < LARGE_BYTES or sys.platform != "linux":
        return
    page = mmap.PAGESIZE
    first, end = -(-(address + page) // page) * page, (address + num_bytes) // page * page
    _madvise()(first, end - first, _DONT_NEED)


@cache
def _madvise() -> Any:
    import ctypes  # calls of a CDLL let go of the lock

    found = ctypes.CDLL(None).madvise
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found
