"""What a forked worker does with the descriptors it inherited: it keeps its own, and no other leads anywhere shared.

Closing alone would be wrong for those that imports opened: a module still owns the number and would one day close it,
by then another file's. So such a number stays taken: by a private opening of the same file when it is a regular one,
else by the null device.
"""

import fcntl
import os
import stat
from collections.abc import Collection

_OPEN_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK


def opened_by_imports(own: Collection[int]) -> list[int]:
    """Return the descriptors open now that are neither standard streams nor the zygote's `own`."""
    return sorted(fd for fd in _open_now() if fd > 2 and fd not in own and _is_open(fd))


def close_all_but(keep: Collection[int]) -> None:
    """Close every descriptor above 2 that is not in `keep`, gap by gap, so that many of them cost no more than few."""
    low = 3
    for fd in sorted(fd for fd in keep if fd > 2):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, max(_open_now()) + 1)


def make_private(fds: Collection[int]) -> None:
    """Put under each number an opening that shares neither an offset nor a peer with another process."""
    for fd in fds:
        private = _reopen(fd) if stat.S_ISREG(os.fstat(fd).st_mode) else os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(private, fd, inheritable=os.get_inheritable(fd))
        os.close(private)


def _reopen(fd: int) -> int:
    flags = fcntl.fcntl(fd, fcntl.F_GETFL) & _OPEN_FLAGS
    private = os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC)
    os.lseek(private, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
    return private


def _open_now() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]


def _is_open(fd: int) -> bool:
    """Tell a descriptor from the one that listed the folder, which is closed again by now."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
