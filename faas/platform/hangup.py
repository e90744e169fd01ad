"""Notices clients that leave while nothing is read from them.

A connection whose reading is paused would not be seen to close: its end waits behind unread bytes. Linux tells of it
all the same, to who asks for hang-ups alone; elsewhere a client's leaving is seen when reading goes on.
"""

import asyncio
import select
from collections.abc import Callable


class HangupWatch:
    """Calls back when the peer of a watched descriptor closes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        if self._epoll is not None:
            loop.add_reader(self._epoll.fileno(), self._hung_up)

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Call `callback` once if the peer closes before `unwatch`."""
        if self._epoll is not None and fd not in self._callbacks:
            self._epoll.register(fd, select.EPOLLRDHUP)
            self._callbacks[fd] = callback

    def unwatch(self, fd: int) -> None:
        """Forget `fd`; to be called before it is closed."""
        if self._epoll is not None and self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self) -> None:
        """Stop watching."""
        if self._epoll is not None and not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._callbacks.clear()

    def _hung_up(self) -> None:
        assert self._epoll is not None
        for fd, _ in self._epoll.poll(0):
            callback = self._callbacks.get(fd)
            self.unwatch(fd)
            if callback is not None:
                callback()
