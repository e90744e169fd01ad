"""Answers probes and calls while an instance's code is imported: alive, but not ready yet.

Imports take the main thread for seconds. A thread of its own so holds the listening socket, which is then handed to the
server; nobody who comes in between is turned away.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Final

_MAX_HEAD_BYTES: Final = 64 << 10
_HEAD_TIMEOUT_S: Final = 5.0
"""How long a caller may take to send a head; one at a time is read, as few come this early."""
_NOT_YET: Final = b'{"ready":false,"state":"starting","reason":"its code is being imported"}'
_LIVE: Final = b'{"live":true,"state":"starting"}'


class Porter:
    """Answers on a listening socket while the block lasts."""

    def __init__(self, listen: socket.socket) -> None:
        self._listen = listen
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="porter", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._wake.close()
        self._thread.join()
        self._woken.close()

    def _run(self) -> None:
        while True:
            readable, _, _ = select.select([self._listen, self._woken], [], [])
            if self._woken in readable:
                return
            with contextlib.suppress(OSError):  # the caller is gone
                connection, _ = self._listen.accept()
                with connection:
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_HEAD_TIMEOUT_S)
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD_BYTES:
            readable, _, _ = select.select([connection, self._woken], [], [], _HEAD_TIMEOUT_S)
            if connection not in readable or not (piece := connection.recv(4096)):
                return
            head += piece
        connection.sendall(answer(head))
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):  # a body that is still coming would have the answer lost
            connection.settimeout(0.2)
            while connection.recv(65_536):
                pass


def answer(head: bytes) -> bytes:
    """Return the answer to a request's head: 200 for /livez, 503 for all else."""
    path = head.split(b" ", 2)[1].partition(b"?")[0] if head.count(b" ") >= 2 else b""
    line, body = (b"200 OK", _LIVE) if path == b"/livez" else (b"503 Service Unavailable\r\nretry-after: 1", _NOT_YET)
    if head.startswith(b"HEAD "):
        body = b""
    fields = b"content-type: application/json\r\ncache-control: no-store\r\nconnection: close"
    return b"HTTP/1.1 %s\r\n%s\r\ncontent-length: %d\r\n\r\n%s" % (line, fields, len(body), body)
