"""Answers that are sent whole, and can be read even by a caller who is still sending the body."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.types import Send

from faas.server.body import Body
from faas.server.headers import REQUEST_ID
from faas.server.problem import Problem

Pair = tuple[bytes, bytes]

_CLOSE: Final = (b"connection", b"close")


class Answer(msgspec.Struct, frozen=True):
    """A whole answer."""

    status: int
    headers: tuple[Pair, ...]
    payload: bytes = b""

    @classmethod
    def of(cls, content_type: bytes, payload: bytes, *headers: Pair, status: int = 200) -> Answer:
        """Return the answer whose body is `payload`."""
        stated = ((b"content-type", content_type), (b"content-length", b"%d" % len(payload)))
        return cls(status, (*stated, *headers), payload)

    @classmethod
    def telling(cls, problem: Problem, request_id: bytes, *headers: Pair) -> Answer:
        """Return the answer that tells of a problem."""
        payload = problem.body(request_id.decode())
        return cls(problem.status, (*problem.headers(payload), (REQUEST_ID, request_id), *headers), payload)

    async def send(self, send: Send, body: Body) -> None:
        """Send it to a caller whose `body` may not have been read.

        What is left of a small body is read first. With a larger one the connection cannot stay open, but to close it
        on a caller who still sends would reset it before the answer is read: the answer goes out at once, the rest of
        the body is dropped as it comes, within bounds, and only then the connection is closed.
        """
        if not body.complete and body.is_small:
            await body.drop()
        headers = [*self.headers] if body.complete else [*self.headers, _CLOSE]  # middleware may add to the list
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        if body.complete or body.waits_to_be_asked:
            await send({"type": "http.response.body", "body": self.payload})
            return
        await send({"type": "http.response.body", "body": self.payload, "more_body": True})
        await body.drop()
        await send({"type": "http.response.body", "body": b""})
