"""The seam between an exchange and the connection of its client."""

import asyncio
from typing import Protocol

from faas.platform.deadlines import Deadlines
from faas.platform.routing import Router
from faas.platform.wire import LocalAnswer
from faas.server.headers import RequestIds


class ClientSide(Protocol):
    """A client's connection, as the exchange sees it whose turn it is to be answered."""

    loop: asyncio.AbstractEventLoop
    router: Router
    ids: RequestIds
    deadlines: Deadlines
    keeps_up: bool  # whether the client reads as fast as it is sent to
    is_reading: bool
    must_close: bool  # whether the connection ends after this answer, whatever the request asked for

    @property
    def num_buffered_bytes(self) -> int:
        """How much of what was sent waits for the client to read."""

    def send(self, data: bytes) -> None:
        """Send to the client."""

    def answer(self, answer: LocalAnswer) -> None:
        """Answer without an instance, and be done with the exchange."""

    def done(self, *, close: bool) -> None:
        """The answer is complete."""

    def cut(self) -> None:
        """End the connection in the middle of an answer, so that the client sees that it is not whole."""

    def flow(self) -> None:
        """Whether to read from the client may have changed."""

    def upgraded(self) -> bytes:
        """From now on the connection is a tunnel; what the client has sent into it already."""
