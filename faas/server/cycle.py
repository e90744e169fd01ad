"""Uvicorn's answer to one request, where it is at hand as a whole: made in one pass, and sent in one write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from faas.server.uvicorn_parts import STATUS_LINE, RequestResponseCycle

_MAX_JOINED_BYTES: Final = 64 * 1024
"""Of a body that is copied behind its head; what is larger takes many reads anyway."""

_IN_NAMES: Final = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
_IN_VALUES: Final = b"\t" + bytes(byte for byte in range(256) if byte >= 0x20 and byte != 0x7F)
_OF_CONNECTIONS: Final = frozenset((b"connection", b"transfer-encoding"))


class Cycle(RequestResponseCycle):
    """Its reader is woken once, not twice, and reads it whole.

    A head that states a length waits for the first of the body, which its sender has at hand. All else is uvicorn's: a
    stream, whose reader may want to know at once that it has begun; a body in parts; what is said of the connection; a
    head that is not fit to be sent. To a client of HTTP/1.0 nothing can be sent in chunks (RFC 9112, 6.1): where no
    length is stated its answer ends with the connection.
    """

    on_gone: Callable[[], None] | None = None
    """Called when the client has left before its answer was complete."""

    _head: Any = None
    _ends_with_connection = False

    def tell_when_gone(self, on_gone: Callable[[], None]) -> None:
        """Have it called when the client leaves, or at once if it has left. The request has been read to its end."""
        if self.disconnected:
            on_gone()
            return
        self.on_gone = on_gone
        self.flow.resume_reading()  # paused for a large body, and what is not read from is not seen to end

    async def send(self, message: Any) -> None:
        """Send a message, as ASGI has it."""
        if message["type"] == "http.response.start" and not self.response_started:
            if _states_length(message):
                self._head = message
                return
            if self.scope["http_version"] == "1.0":
                self.chunked_encoding, self._ends_with_connection = False, True
        head, self._head = self._head, None
        if head is None:
            if self._ends_with_connection and not self.chunked_encoding:
                self.expected_content_length = len(message.get("body", b""))
            await super().send(message)
        elif not self._is_sent_whole(head, message):
            await super().send(head)
            await super().send(message)

    def _is_sent_whole(self, head: Any, message: Any) -> bool:
        """Send an answer, if that can be done here."""
        if message["type"] != "http.response.body" or message.get("more_body") or self.scope["method"] == "HEAD":
            return False
        if not self.keep_alive or self.flow.write_paused or self.disconnected:
            return False
        body = message.get("body", b"")
        written = _written(head["status"], [*self.default_headers, *head["headers"]], len(body))
        if written is None:
            return False
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        if len(body) <= _MAX_JOINED_BYTES:
            self.transport.write(written + body)
        else:
            self.transport.write(written)
            self.transport.write(body)
        self.message_event.set()
        self.on_response()
        return True


def _states_length(head: Any) -> bool:
    for name, _ in head.get("headers", ()):  # noqa: SIM110, any() would cost each answer a generator
        if name == b"content-length":
            return True
    return False


def _written(status: int, headers: list[tuple[bytes, bytes]], num_bytes: int) -> bytes | None:
    """Return the head of an answer whose body has that length; None where there is more to it."""
    lines, length = [STATUS_LINE[status]], b""
    for name, value in headers:
        if name in _OF_CONNECTIONS:
            return None
        if name == b"content-length":
            length = value
        lines += (name, b": ", value, b"\r\n")
    if length != b"%d" % num_bytes:
        return None
    if b"".join(lines[1::4]).translate(None, _IN_NAMES) or b"".join(lines[3::4]).translate(None, _IN_VALUES):
        return None
    lines.append(b"\r\n")
    return b"".join(lines)
