"""What the activator says itself: its limits, its refusals, and the small answers it makes without an instance."""

from http import HTTPStatus
from typing import NamedTuple

from msgspec.structs import replace

from faas.server.problem import Problem

MAX_HEAD_BYTES = 64 * 1024  # of a request line and its headers together, and of an answer's


class WireError(Exception):
    """Bytes that are not HTTP/1.1 as we accept it; `status` is what their sender is told, if it can be told."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class LocalAnswer(NamedTuple):
    """An answer that needs no instance. `headers` are more than type and length; a `problem` is a body and its type."""

    status: int
    body: bytes = b""
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    problem: Problem | None = None


def problem(status: int, detail: str, *, retry_after_s: int | None = None) -> LocalAnswer:
    """A refusal that its status says wholly, as problem+json."""
    plain = Problem.plain(status, detail)
    return LocalAnswer(status, problem=replace(plain, retry_after_s=retry_after_s))


def encode_answer(answer: LocalAnswer, request_id: bytes, *, is_head: bool, close: bool) -> bytes:
    """The bytes of `answer` on an HTTP/1.1 connection, the body left out where the request was a HEAD."""
    if answer.problem is not None:
        body = answer.problem.body(request_id.decode("latin-1"))
        headers = [*answer.problem.headers(body), *answer.headers]
    else:
        body = answer.body
        headers = [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(body)), *answer.headers]
    lines = [b"HTTP/1.1 %d %b" % (answer.status, HTTPStatus(answer.status).phrase.encode())]
    lines += [b"%b: %b" % header for header in headers]
    lines.append(b"x-request-id: " + request_id)
    if close:
        lines.append(b"connection: close")
    return b"\r\n".join((*lines, b"", b"" if is_head else body))
