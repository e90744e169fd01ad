"""The holes in a zygote's heap, filled: what workers allocate then lies together, on new pages.

Imports leave free blocks all over the heap, a few on each page. An allocator hands these out first, so a worker that
makes a thousand small objects would write to, and thereby copy, close to a thousand of the pages it shares with its
zygote. Filled once in the zygote, they cost it no memory that it did not have. Each worker of a torch zygote then has 2
to 3 MiB less to itself.
"""

import ctypes
import os
import re
import sys

_SIZE_CLASS = re.compile(rb"^ *\d+ +(\d+) +\d+ +\d+ +(\d+)$", re.MULTILINE)
_BYTES_OVERHEAD = sys.getsizeof(b"")
_STDERR = 2
_CHUNK_OVERHEAD = 8
_CHUNK_BYTES = (*(1 << power for power in range(17, 9, -1)), *range(1008, 24, -16))
_MAX_CHUNKS = 200_000

_fillers: list[list[object]] = []


class _MallocInfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    ]


def fill() -> None:
    """Fill the holes of this process's heap, for good. Call it after a full collection and before the first fork."""
    _fill_pools()
    _fill_chunks()


def _fill_pools() -> None:
    """Take every free block of the pools that Python keeps its small objects in; none where it keeps none."""
    for size, free in free_blocks(_allocator_report()).items():
        _fillers.append([_object_of(size, number) for number in range(free)])


def free_blocks(report: bytes) -> dict[int, int]:
    """Return how many blocks are free in pools that are in use, by the size of a block in bytes.

    `report` is what `sys._debugmallocstats()` writes; empty for a Python that has no such pools.
    """
    return {int(size): int(free) for size, free in _SIZE_CLASS.findall(report)}


def _allocator_report() -> bytes:
    """Return what Python can only be made to write to its standard error."""
    saved = os.dup(_STDERR)
    try:
        with open(os.memfd_create("allocator report"), "w+b") as report:
            os.dup2(report.fileno(), _STDERR)
            try:
                sys._debugmallocstats()
            finally:
                os.dup2(saved, _STDERR)
            report.seek(0)
            return report.read()
    finally:
        os.close(saved)


def _object_of(size: int, number: int) -> object:
    """Return a new object that takes a block of `size` bytes, of a type without a free list."""
    if size == object.__sizeof__(object()):
        return object()
    if size <= _BYTES_OVERHEAD:
        return complex(number, 1)
    return bytes(size - _BYTES_OVERHEAD)


def _fill_chunks() -> None:
    """Take every free chunk of the C library's heap below its top, the largest first; they are never given back."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):  # glibc 2.33
        return
    libc.mallinfo2.restype = _MallocInfo
    libc.sbrk.restype = libc.malloc.restype = ctypes.c_void_p
    libc.sbrk.argtypes = (ctypes.c_ssize_t,)
    libc.malloc.argtypes, libc.free.argtypes = (ctypes.c_size_t,), (ctypes.c_void_p,)
    top = libc.sbrk(0) - libc.mallinfo2().keepcost
    num_left = _MAX_CHUNKS
    for size in _CHUNK_BYTES:
        while num_left and (chunk := libc.malloc(size - _CHUNK_OVERHEAD)):
            if chunk >= top:  # nothing below is large enough
                libc.free(chunk)
                break
            num_left -= 1
