"""Answers probes and calls while an instance's code is imported: alive, but not ready yet.

Imports take the main thread for seconds. A thread of its own so holds the listening socket, which is then handed to the
server; nobody who comes in between is turned away.

It is there before anything else of an instance is imported, and so imports little itself.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Final

Held = tuple[socket.socket, bytes]
KUBELET: Final = b"kube-probe/"
"""What the User-Agent of a kubelet's probes begins with, and of Knative's in its place."""

_MAX_HEAD_BYTES: Final = 64 << 10
_HEAD_TIMEOUT_S: Final = 5.0
"""How long a caller may take to send a head; one at a time is read, as few come this early."""
_MAX_HELD: Final = 4
"""Probes that are held at a time. A kubelet gives up after a second, so that those of before have ended."""
_NOT_YET: Final = b'{"ready":false,"state":"starting","reason":"its code is being imported"}'
_LIVE: Final = b'{"live":true,"state":"starting"}'


class Porter:
    """Answers on a listening socket while the block lasts, all but a kubelet's looks for readiness.

    Those the server answers, as soon as it is ready: the kubelet looks once a second, and a no now would have callers
    wait for the next one. `held` are their connections, each with what has been read from it; who enters the block
    closes them, unless it ends with an error.
    """

    def __init__(self, listen: socket.socket) -> None:
        self._listen = listen
        self.held: list[Held] = []
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="porter", daemon=True)

    def __enter__(self) -> Porter:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._wake.close()
        self._thread.join()
        self._woken.close()
        if kind is not None:
            self._keep(0)

    def _keep(self, most: int) -> None:
        """Give up the probes that were held first, but for the last `most` ones."""
        while len(self.held) > most:
            self.held.pop(0)[0].close()

    def _run(self) -> None:
        while True:
            readable, _, _ = select.select([self._listen, self._woken], [], [])
            if self._woken in readable:
                return
            with contextlib.suppress(OSError):  # the caller is gone
                connection, _ = self._listen.accept()
                self._attend(connection)

    def _attend(self, connection: socket.socket) -> None:
        with contextlib.ExitStack() as closing:
            closing.enter_context(connection)
            head = self._head(connection)
            if head is None:
                return
            if not _looks_for_readiness(head):
                self._answer(connection, head)
                return
            closing.pop_all()
            self.held.append((connection, head))
            self._keep(_MAX_HELD)

    def _head(self, connection: socket.socket) -> bytes | None:
        """Return what a caller asks for; None where it does not say, or the block ends meanwhile."""
        connection.settimeout(_HEAD_TIMEOUT_S)
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD_BYTES:
            readable, _, _ = select.select([connection, self._woken], [], [], _HEAD_TIMEOUT_S)
            if connection not in readable or not (piece := connection.recv(4096)):
                return None
            head += piece
        return head

    def _answer(self, connection: socket.socket, head: bytes) -> None:
        connection.sendall(answer(head))
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):  # a body that is still coming would have the answer lost
            connection.settimeout(0.2)
            while connection.recv(65_536):
                pass


def answer(head: bytes) -> bytes:
    """Return the answer to a request's head: 200 for /livez, 503 for all else."""
    line, body = b"503 Service Unavailable\r\nretry-after: 1", _NOT_YET
    if _path(head) == b"/livez":
        line, body = b"200 OK", _LIVE
    if head.startswith(b"HEAD "):
        body = b""
    fields = b"content-type: application/json\r\ncache-control: no-store\r\nconnection: close"
    return b"HTTP/1.1 %s\r\n%s\r\ncontent-length: %d\r\n\r\n%s" % (line, fields, len(body), body)


def _looks_for_readiness(head: bytes) -> bool:
    return _path(head) == b"/readyz" and b"user-agent: " + KUBELET in head.lower()


def _path(head: bytes) -> bytes:
    return head.split(b" ", 2)[1].partition(b"?")[0] if head.count(b" ") >= 2 else b""
