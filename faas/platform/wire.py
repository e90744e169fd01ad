"""What the activator says itself: its limits, its refusals, and the small answers it makes without an instance."""

from http import HTTPStatus
from typing import NamedTuple

import msgspec

MAX_HEAD_BYTES = 64 * 1024  # of a request line and its headers together, and of an answer's


class WireError(Exception):
    """Bytes that are not HTTP/1.1 as we accept it; `status` is what their sender is told, if it can be told."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class LocalAnswer(NamedTuple):
    """An answer that needs no instance. `headers` come on top of type, length and connection."""

    status: int
    body: bytes = b""
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


def problem(status: int, detail: str, *, retry_after_s: int | None = None) -> LocalAnswer:
    """A refusal as RFC 9457's problem+json."""
    title = HTTPStatus(status).phrase
    body = msgspec.json.encode({"type": "about:blank", "title": title, "status": status, "detail": detail})
    headers = () if retry_after_s is None else ((b"retry-after", b"%d" % retry_after_s),)
    return LocalAnswer(status, body, b"application/problem+json", headers)


def encode_answer(answer: LocalAnswer, *, request_id: bytes, is_head: bool, close: bool) -> bytes:
    """The bytes of `answer` on an HTTP/1.1 connection, the body left out where the request was a HEAD."""
    lines = [
        b"HTTP/1.1 %d %s" % (answer.status, HTTPStatus(answer.status).phrase.encode()),
        b"content-type: " + answer.content_type,
        b"content-length: %d" % len(answer.body),
    ]
    lines += [name + b": " + value for name, value in answer.headers]
    if request_id:
        lines.append(b"x-request-id: " + request_id)
    if close:
        lines.append(b"connection: close")
    return b"\r\n".join((*lines, b"", b"" if is_head else answer.body))
