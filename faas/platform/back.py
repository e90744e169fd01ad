"""A connection to an instance: a Unix socket, read and written without a transport.

Connecting and sending happen at once, in the call, so that their errors say for certain whether a byte has reached the
instance. A write that fails does not end the reading: what the instance sent before it closed is still there.
"""

import array
import asyncio
import contextlib
import fcntl
import socket
import termios

from faas.platform.endpoint import Caller, Connection, Endpoint

_RECEIVE_BYTES = 64 * 1024
_MAX_PIECES = 16


def begin(caller: Caller, endpoint: Endpoint, data: bytes, loop: asyncio.AbstractEventLoop) -> tuple[Connection, int]:
    """Send the beginning of a request over an idle connection, or a new one where none is still open.

    Return the connection, and how many were found closed before. Raises OSError where none can be had; not one byte has
    left then.
    """
    num_stale, idle = 0, endpoint.idle
    while idle:
        back = idle.pop()
        try:
            back.begin(caller, data)
            return back, num_stale
        except OSError:
            back.close()
            num_stale += 1
    back = BackConnection(endpoint, loop)
    try:
        back.begin(caller, data)
    except BaseException:
        back.close()
        raise
    return back, num_stale


class BackConnection:
    """One connection to `endpoint`, idle while it has no `caller`. Opening it raises OSError."""

    __slots__ = (
        "_is_open",
        "_loop",
        "_out",
        "_sock",
        "_write_failed",
        "caller",
        "endpoint",
        "is_congested",
        "is_paused",
    )

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        self.endpoint = endpoint
        self.caller: Caller | None = None
        self._loop = loop
        self._out = bytearray()
        self.is_congested = False
        self.is_paused = False
        self._write_failed = False
        self._is_open = True
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._sock.setblocking(False)
            self._sock.connect(endpoint.address)
        except BaseException:
            self._sock.close()
            raise
        endpoint.connections.add(self)
        loop.add_reader(self._sock, self._readable)

    @property
    def num_buffered_bytes(self) -> int:
        """How much waits for the instance to read."""
        return len(self._out)

    def begin(self, caller: Caller, data: bytes) -> None:
        """Send the beginning of a request. Raises OSError where not one byte of it has left."""
        num_sent = self._sock.send(data)
        self.caller = caller
        if num_sent < len(data):
            self._keep(memoryview(data)[num_sent:])

    def send(self, data: bytes) -> None:
        """Send on, as fast as the instance reads. What it does not want to read any more is dropped."""
        if self._write_failed:
            return
        if self.is_congested:
            self._out += data
            return
        try:
            num_sent = self._sock.send(data)
        except BlockingIOError:
            num_sent = 0
        except OSError:
            self._write_failed = True
            return
        if num_sent < len(data):
            self._keep(memoryview(data)[num_sent:])

    def pause(self) -> None:
        """Read no more for now."""
        if not self.is_paused and self._is_open:
            self.is_paused = True
            self._loop.remove_reader(self._sock)

    def resume(self) -> None:
        """Read again."""
        if self.is_paused and self._is_open:
            self.is_paused = False
            self._loop.add_reader(self._sock, self._readable)

    def give_back(self) -> None:
        """The request is over, the answer read to its end: idle from now on."""
        self.caller = None
        if self.endpoint.is_retired or self.is_congested or self._write_failed:
            self.close()
            return
        if self.is_paused:
            self.resume()
        self.endpoint.idle.append(self)

    def close(self) -> None:
        """Close it at once; who uses it hears nothing more."""
        self.caller = None
        if not self._is_open:
            return
        if not self.is_paused:
            self._loop.remove_reader(self._sock)
        if self.is_congested:
            self._loop.remove_writer(self._sock)
        self._is_open = False
        self._sock.close()
        self.endpoint.connections.discard(self)

    def instance_died(self) -> None:
        """Nobody reads at the other end any more, though somebody may still hold it open."""
        if self.is_paused:
            return  # it has answered; the end of that comes when its client reads on
        self._readable()  # what it sent before, the end, or a reset: then it had not read all of the request
        if not self._is_open:
            return
        unread = array.array("i", [0])
        with contextlib.suppress(OSError):  # not every system knows it of such a socket
            fcntl.ioctl(self._sock, termios.TIOCOUTQ, unread)
        self._lost(unread=unread[0] > 0)

    def _keep(self, rest: memoryview) -> None:
        self.is_congested = True
        self._out += rest
        self._loop.add_writer(self._sock, self._writable)

    def _writable(self) -> None:
        try:
            num_sent = self._sock.send(self._out)
        except BlockingIOError:
            return
        except OSError:
            self._write_failed = True
            num_sent = len(self._out)
        del self._out[:num_sent]
        if not self._out:
            self.is_congested = False
            self._loop.remove_writer(self._sock)
            if self.caller is not None:
                self.caller.drained()

    def _readable(self) -> None:
        """Read until the answer is complete or nothing is left.

        One piece for each event would not do: once the instance has closed with bytes unread, uvloop tells of the
        socket a last time.
        """
        for _ in range(_MAX_PIECES):
            if self.is_paused or not self._is_open:
                return
            try:
                data = self._sock.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError:  # a reset: the instance closed with bytes unread
                self._lost(unread=True)
                return
            caller = self.caller
            if not data or caller is None:
                self._lost(unread=False)  # the end; or an answer that nobody asked for
                return
            caller.received(data)
            if self.caller is not caller:
                return
        self._loop.call_soon(self._readable)  # let others have their turn

    def _lost(self, *, unread: bool) -> None:
        caller = self.caller
        if caller is None and self in self.endpoint.idle:
            self.endpoint.idle.remove(self)
        self.close()
        if caller is not None:
            caller.lost(unread=unread)
