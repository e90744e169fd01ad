"""Answers that come before the body was read: still readable by a caller who is sending it."""

from __future__ import annotations

from typing import Final

from starlette.types import Send

from faas.server.body import Body
from faas.server.headers import REQUEST_ID
from faas.server.problem import Problem

Pairs = list[tuple[bytes, bytes]]

_CLOSE: Final = (b"connection", b"close")


async def reply(send: Send, status: int, headers: Pairs, payload: bytes, body: Body) -> None:
    """Send a whole answer.

    What is left of a small body is read first. With a larger one the connection cannot stay open, but to close it on a
    caller who still sends would reset it before the answer is read: the answer goes out at once, the rest of the body
    is dropped as it comes, within bounds, and only then the connection is closed.
    """
    if not body.complete and body.is_small:
        await body.drop()
    if not body.complete:
        headers = [*headers, _CLOSE]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if body.complete or body.waits_to_be_asked:
        await send({"type": "http.response.body", "body": payload})
        return
    await send({"type": "http.response.body", "body": payload, "more_body": True})
    await body.drop()
    await send({"type": "http.response.body", "body": b""})


async def tell(send: Send, problem: Problem, request_id: bytes, body: Body, *more: tuple[bytes, bytes]) -> None:
    """Send a problem as a whole answer, with `more` headers."""
    payload = problem.body(request_id.decode())
    await reply(send, problem.status, [*problem.headers(payload), (REQUEST_ID, request_id), *more], payload, body)
