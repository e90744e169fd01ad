"""A call's events as server-sent events, or all of them as one JSON array."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.types import Send

from faas import codec
from faas.messages import Call
from faas.server import media

HEADERS: Final = [
    (b"content-type", media.EVENTS + b"; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

_JOIN_BYTES: Final = 64 * 1024


def event(value: Any) -> bytes:
    """Return one event, as it goes on the wire.

    Raises:
        HandlerError: the value has no JSON form.
    """
    return b"data: " + codec.encode(value) + b"\n\n"


def error_event(problem: bytes) -> bytes:
    """Return the event that ends a stream in which something failed; its data is the problem+json."""
    return b"event: error\ndata: " + problem + b"\n\n"


async def gather(call: Call) -> bytes:
    """Return all events of a call as one JSON array.

    Raises:
        BaseException: what the call failed with, whatever came before.
    """
    return codec.encode([value async for value in call.events()])


async def pump(
    send: Send, call: Call, held: bytes, events: AsyncIterator[Any], failed: Callable[[Exception], tuple[int, bytes]]
) -> int:
    """Send `held` and then each of `events` as it comes, those that came meanwhile in one write.

    The answer has begun, so an error is told in a last event: `failed` gives its status and its problem+json. Returns
    the status that the call ended with.
    """
    status = 200
    try:
        if held and not call.backlog:
            await _write(send, held)
            held = b""
        async for value in events:
            held += event(value)
            if not call.backlog or len(held) >= _JOIN_BYTES:
                await _write(send, held)
                held = b""
    except Exception as error:
        status, problem = failed(error)
        held += error_event(problem)
    await _write(send, held, more=False)
    return status


async def _write(send: Send, chunk: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": more})
