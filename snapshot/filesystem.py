"""What a file lies on, and how much of it is in memory already."""

import ctypes
import os
from pathlib import Path
from typing import Literal

Kind = Literal["local", "memory", "remote"]

# f_type of statfs(2). A file system in user space (FUSE) is taken for a remote one: nearly all that hold models are,
# and each page fault on it is a request to another process at least.
_MEMORY = {0x01021994, 0x858458F6}  # tmpfs, ramfs
_REMOTE = {
    0x00006969,  # NFS
    0x65735546,  # FUSE: s3fs, gcsfuse, mountpoint, sshfs, JuiceFS, virtiofs
    0xFF534D42, 0xFE534D42, 0x0000517B,  # CIFS, SMB 2, SMB
    0x00C36400,  # Ceph
    0x0BD00BD0,  # Lustre
    0x01021997,  # 9P
    0x5346414F, 0x6B414653,  # AFS
    0x47504653,  # GPFS
    0x19830326,  # BeeGFS
    0x786F4256,  # VirtualBox shared folders
}  # fmt: skip

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CACHESTAT = 451  # its number on every architecture; Linux 6.5
_NUM_SAMPLES = 8
_SAMPLE_BYTES = 1 << 20
_STATFS_BYTES = 256  # more than the structure has anywhere

_libc = ctypes.CDLL(None, use_errno=True)


class _CachedRange(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("num_bytes", ctypes.c_uint64))


class _CachedPages(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "lately_evicted"))


def kind_of(path: Path) -> Kind:
    """What kind of file system `path` lies on; one that cannot be asked counts as local."""
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.statfs(os.fsencode(path), buffer) != 0:
        return "local"
    return kind_of_type(ctypes.c_ulong.from_buffer(buffer).value)


def kind_of_type(type_number: int) -> Kind:
    """The kind of file system that statfs(2) gives this number for."""
    type_number &= 0xFFFFFFFF  # the field is signed, and 64 bits wide on some machines
    if type_number in _MEMORY:
        return "memory"
    return "remote" if type_number in _REMOTE else "local"


def cached_bytes(descriptor: int, num_bytes: int) -> int:
    """How many of the first `num_bytes` of a file are in the page cache, judged by samples where it is large.

    Counting all pages of 2 GB takes 4 ms, which is most of a thaw. What is in the cache and what is not lies in long
    runs, so samples all over the file tell as much. All of the bytes where the kernel does not tell: it is older, or
    the file is another user's. Nothing is then read ahead.
    """
    if num_bytes <= _NUM_SAMPLES * _SAMPLE_BYTES:
        return _cached_in(descriptor, 0, num_bytes)
    last = num_bytes - _SAMPLE_BYTES
    begins = (last * number // (_NUM_SAMPLES - 1) // _PAGE_BYTES * _PAGE_BYTES for number in range(_NUM_SAMPLES))
    num_found = sum(_cached_in(descriptor, begin, _SAMPLE_BYTES) for begin in begins)
    return num_bytes * num_found // (_NUM_SAMPLES * _SAMPLE_BYTES)


def _cached_in(descriptor: int, begin: int, num_bytes: int) -> int:
    pages, asked = _CachedPages(), _CachedRange(begin, num_bytes)
    if _libc.syscall(_CACHESTAT, descriptor, ctypes.byref(asked), ctypes.byref(pages), 0) != 0:
        return num_bytes
    return min(int(pages.cache) * _PAGE_BYTES, num_bytes)
