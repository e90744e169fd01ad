"""An answer's head and body in one write: its reader is woken once, not twice, and reads it whole."""

from __future__ import annotations

import asyncio
from typing import Any, Final

_MOST_JOINED_BYTES: Final = 64 * 1024
"""Of a body that is copied behind its head; what is larger takes many reads anyway."""


class OneWrite:
    """A transport, for one who writes the head of an answer before the body.

    A head that states a length waits for the first of the body, which its writer has at hand. One that does not is that
    of a stream, whose reader may want to know at once that it has begun.
    """

    __slots__ = ("_has_begun", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._has_begun = False

    def write(self, data: bytes) -> None:
        """Send `data`, or keep it for a moment."""
        if self._head:
            head, self._head = self._head, b""
            if len(data) <= _MOST_JOINED_BYTES:
                data = head + data
            else:
                self._transport.write(head)
        elif not self._has_begun and data.startswith(b"HTTP/1.1 ") and b"\r\ncontent-length: " in data:
            self._head = data
            self._has_begun = True
            return
        self._transport.write(data)

    def answered(self) -> None:
        """The answer is complete; the next thing to be written is another's head."""
        self._has_begun = False
        self._flush()

    def close(self) -> None:
        """Send what was kept, and close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)
