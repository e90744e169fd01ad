"""The client's end of a zygote's socket, on an event loop (asyncio's or uvloop's)."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence

from warmpool import protocol
from warmpool.errors import ProtocolError

_log = logging.getLogger(__name__)


class Channel:
    """Sends in order, hands each message to `on_message` with its descriptors, and calls `on_close` once at the end."""

    def __init__(
        self,
        sock: socket.socket,
        on_message: Callable[[protocol.ToClient, list[int]], None],
        on_close: Callable[[], None],
    ) -> None:
        self._sock = sock
        self._sock.setblocking(False)
        self._on_message = on_message
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._sending = asyncio.Lock()
        self._full: asyncio.Future[None] | None = None  # a sender waits until there is room
        self._loop.add_reader(sock.fileno(), self._readable)

    @property
    def is_open(self) -> bool:
        """Whether nobody has hung up."""
        return self._sock.fileno() >= 0

    async def send(self, message: protocol.ToZygote, fds: Sequence[int] = ()) -> None:
        """Send one message; raises OSError when the other end is gone, ProtocolError when it is too big."""
        async with self._sending:
            while True:
                try:
                    return protocol.send(self._sock, message, fds)
                except BlockingIOError:
                    await self._writable()

    def close(self) -> None:
        """Hang up. `on_close` is called, if it has not been."""
        if not self.is_open:
            return
        self._loop.remove_reader(self._sock.fileno())
        if self._full is not None:
            self._loop.remove_writer(self._sock.fileno())
            if not self._full.done():
                self._full.set_exception(BrokenPipeError("the zygote is gone"))
        self._sock.close()
        self._on_close()

    def drain(self) -> None:
        """Hand on what has come, then hang up: the process at the other end is no more.

        A worker that it has just forked may hold that end still. What it sends has come, or cannot be sent any more.
        """
        if self.is_open:
            with contextlib.suppress(OSError):  # nobody holds the other end: nothing more comes
                self._sock.shutdown(socket.SHUT_RD)
        self._readable()
        self.close()

    def _readable(self) -> None:
        while self.is_open:
            try:
                message, fds = protocol.receive(self._sock, protocol.CLIENT_INBOX)
            except BlockingIOError:
                return
            except EOFError:
                self.close()
                return
            except ProtocolError as error:
                _log.warning("hanging up on a zygote: %s", error)
                self.close()
                return
            self._on_message(message, fds)

    async def _writable(self) -> None:
        ready = self._full = self._loop.create_future()
        fd = self._sock.fileno()
        self._loop.add_writer(fd, self._has_room)
        try:
            await ready
        finally:
            self._full = None
            if self.is_open:
                self._loop.remove_writer(fd)

    def _has_room(self) -> None:
        if self._full is not None and not self._full.done():
            self._full.set_result(None)
