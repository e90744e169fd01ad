"""Files in memory, copy on write, and memory that is no file's.

Python's own mmap keeps a duplicate of the descriptor for as long as the mapping lives, so this one is made through
the C library: a thawed process holds no descriptor of its snapshot. The memory is unmapped when the last array,
tensor or view of it is gone.
"""

import contextlib
import ctypes
import mmap
import os
import stat
import weakref
from collections.abc import Iterator
from pathlib import Path

from snapshot.errors import SizeMismatchError, SnapshotError

_MAP_NORESERVE = 0x4000  # Linux; the private copies are few, so promise no swap for all of them
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@contextlib.contextmanager
def opened(path: Path, num_bytes: int | None = None) -> Iterator[int]:
    """A descriptor of the file, for as long as the block lasts.

    Raises SizeMismatchError when the file cannot be opened, is none, or has not `num_bytes`, where they are given.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would wait for its writer
    except OSError as error:
        raise SizeMismatchError(path, f"cannot be opened: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SizeMismatchError(path, "is no file of its own but a folder, a pipe or a device")
        size = status.st_size
        if num_bytes is not None and size != num_bytes:
            raise SizeMismatchError(path, f"has {size} bytes, the manifest says {num_bytes}")
        yield descriptor
    finally:
        os.close(descriptor)


def map_private(descriptor: int, num_bytes: int, path: Path) -> memoryview:
    """The first `num_bytes` of a file as writable memory whose changes never reach the file.

    The caller may close the descriptor at once. Raises SnapshotError when the kernel refuses; `path` is for that.
    """
    return _mapped(descriptor, num_bytes, _MAP_NORESERVE, str(path))


def anonymous(num_bytes: int, what: str) -> memoryview:
    """New memory, zero, in huge pages where there are any; it begins and ends at a page.

    Raises SnapshotError when the kernel refuses; `what` is it for, in the message.
    """
    memory = _mapped(-1, num_bytes + -num_bytes % mmap.PAGESIZE, mmap.MAP_ANONYMOUS, what)
    _advise(memory, mmap.MADV_HUGEPAGE)
    return memory


def _advise(memory: memoryview, advice: int) -> bool:
    """Give advice on mapped memory that begins at a page, as madvise(2) does; whether the kernel took it."""
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(memory))
    return bool(_libc.madvise(address, len(memory), advice) == 0)


def _mapped(descriptor: int, num_bytes: int, flags: int, what: str) -> memoryview:
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    address = _libc.mmap(None, num_bytes, protection, mmap.MAP_PRIVATE | flags, descriptor, 0)
    if address == _MAP_FAILED:
        raise SnapshotError(f"{what}: cannot map {num_bytes} bytes: {os.strerror(ctypes.get_errno())}")
    memory = (ctypes.c_ubyte * num_bytes).from_address(address)
    # Not at exit: what still uses the memory then may run after us, and the kernel takes it back anyway.
    weakref.finalize(memory, _libc.munmap, address, num_bytes).atexit = False
    return memoryview(memory).cast("B")
