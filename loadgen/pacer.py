"""Waits until an instant of the monotonic clock, to some tens of microseconds.

An event loop's own timers are rounded to a millisecond, and on uvloop fire early as well: more than many a server
takes to answer. A timerfd (Linux) wakes the loop when it is due, at the cost of a system call to set it.
"""

import asyncio
import ctypes
import os
from contextlib import suppress
from time import monotonic
from types import TracebackType

_CLOCK_MONOTONIC = 1  # <time.h>: the clock of time.monotonic
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK and TFD_CLOEXEC are defined as these
_TFD_TIMER_ABSTIME = 1  # <sys/timerfd.h>

_libc = ctypes.CDLL(None, use_errno=True)


class _TimerSpec(ctypes.Structure):
    _fields_ = (  # struct itimerspec, timerfd_settime(2)
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class Pacer:
    """One waiter's timer on the running event loop; a context manager that owns a descriptor."""

    def __enter__(self) -> "Pacer":
        self._loop = asyncio.get_running_loop()
        self._due: asyncio.Future[None] | None = None
        self._spec = _TimerSpec()
        self._fd = _libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no timer descriptor could be had; raise the limit of open files")
        self._loop.add_reader(self._fd, self._fire)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    async def until(self, instant: float) -> None:
        """Return at `instant` or soon after, never before; when it has passed, after other tasks had their turn."""
        if instant <= monotonic():
            await asyncio.sleep(0)
            return
        self._due = self._loop.create_future()
        whole_s = int(instant)
        self._spec.value_s = whole_s
        # Rounded up, so that it is not early; a value of zero would disarm the timer.
        self._spec.value_ns = min(int((instant - whole_s) * 1e9) + 1, 999_999_999)
        _libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(self._spec), None)
        await self._due

    def _fire(self) -> None:
        with suppress(BlockingIOError):  # set anew since it fired
            os.read(self._fd, 8)
        if self._due is not None and not self._due.done():
            self._due.set_result(None)
