"""A call's events as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.types import Send

from faas import codec
from faas.clock import monotonic
from faas.messages import Call
from faas.server import media

HEADERS: Final = [
    (b"content-type", media.EVENTS + b"; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

_JOIN_BYTES: Final = 64 * 1024
_COMMENT: Final = b":\n\n"
QUIET_S: Final = 15.0
"""How long nothing may be sent before a comment is, as WHATWG HTML, 9.2.7 has it: proxies give up what is quiet."""


def event(value: Any) -> bytes:
    """Return one event, as it goes on the wire.

    Raises:
        HandlerError: the value has no JSON form.
    """
    return b"data: " + codec.encode(value) + b"\n\n"


def error_event(problem: bytes) -> bytes:
    """Return the event that ends a stream in which something failed; its data is the problem+json."""
    return b"event: error\ndata: " + problem + b"\n\n"


async def pump(
    send: Send,
    call: Call,
    held: bytes,
    events: AsyncIterator[Any],
    failed: Callable[[Exception], tuple[int, bytes]],
    *,
    quiet_s: float = QUIET_S,
) -> int:
    """Send `held` and then each of `events` as it comes, those that came meanwhile in one write.

    Where none comes for `quiet_s` a comment is sent, which readers skip. The answer has begun, so an error is told in a
    last event: `failed` gives its status and its problem+json. Returns the status that the call ended with.
    """
    status, line = 200, _Line(send, quiet_s)
    try:
        if held and not call.backlog:
            await line.write(held)
            held = b""
        async for value in events:
            held += event(value)
            if not call.backlog or len(held) >= _JOIN_BYTES:
                await line.write(held)
                held = b""
    except Exception as error:
        status, problem = failed(error)
        held += error_event(problem)
    finally:
        line.close()
    await line.write(held, more=False)
    return status


class _Line:
    """Sends to the caller, from now on a comment whenever nothing else went for `quiet_s`.

    One timer, which looks when the last write was: a stream that is never quiet pays for a clock.
    """

    def __init__(self, send: Send, quiet_s: float) -> None:
        self._send = send
        self._quiet_s = quiet_s
        self._quiet_since = monotonic()
        self._comment: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(quiet_s, self._look)

    async def write(self, chunk: bytes, *, more: bool = True) -> None:
        """Send a piece of the body."""
        self._quiet_since = math.inf
        await self._send({"type": "http.response.body", "body": chunk, "more_body": more})
        self._quiet_since = monotonic()

    def close(self) -> None:
        """Send no more comments."""
        self._timer.cancel()
        if self._comment is not None:
            self._comment.cancel()

    async def _send_comment(self) -> None:
        with contextlib.suppress(Exception):  # the next event will meet it, too
            await self.write(_COMMENT)

    def _look(self) -> None:
        left_s = self._quiet_since + self._quiet_s - monotonic()
        loop = asyncio.get_running_loop()
        if left_s <= 0:
            self._comment = loop.create_task(self._send_comment())
        self._timer = loop.call_later(left_s if 0 < left_s < math.inf else self._quiet_s, self._look)
