"""The one place where errors become HTTP: RFC 9457 `application/problem+json`."""

from __future__ import annotations

import http
import math
import traceback
from typing import Any, Final

import msgspec

from faas import codec
from faas.errors import (
    BadInput,
    BadLabel,
    CallerGone,
    DeadlineExceeded,
    DeadlineUnmeetable,
    HandlerError,
    MalformedBody,
    PayloadTooLarge,
    QueueFull,
    Refused,
    RemoteError,
    SchemaMismatch,
    UnknownRequest,
    UnknownVersion,
    UnsupportedMedia,
    named,
    said,
)
from snapshot.errors import InputMismatch

MEDIA_TYPE: Final = b"application/problem+json"
CLIENT_CLOSED: Final = 499

_MAX_DETAIL_LENGTH: Final = 8192
"""Characters: an error may quote all that it was given."""

_TYPE: Final = "urn:problem-type:faas:"

# The first row that an error is an instance of is its status, the last part of its type, and its title.
_KINDS: Final[tuple[tuple[type[BaseException], int, str, str], ...]] = (
    (SchemaMismatch, 422, "schema-mismatch", "The body does not fit the signature"),
    (MalformedBody, 400, "malformed-body", "The request cannot be read"),
    (UnsupportedMedia, 415, "unsupported-media", "The body is of a type that cannot be taken"),
    (PayloadTooLarge, 413, "payload-too-large", "The body is too large"),
    (UnknownVersion, 404, "unknown-version", "The version is not served"),
    (UnknownRequest, 404, "unknown-request", "The call is not remembered"),
    (BadLabel, 400, "bad-label", "The label leads to no version"),
    (BadInput, 422, "bad-input", "The input was refused"),
    (InputMismatch, 422, "bad-input", "The input was refused"),
    (QueueFull, 429, "queue-full", "The queue is full"),
    (DeadlineUnmeetable, 429, "deadline-unmeetable", "The deadline cannot be met"),
    (Refused, 503, "unavailable", "The instance takes no calls now"),
    (DeadlineExceeded, 504, "deadline-exceeded", "The time for the call is up"),
    (CallerGone, CLIENT_CLOSED, "caller-gone", "The caller left"),
    (HandlerError, 500, "handler-contract", "The handler broke its contract"),
)
_UNKNOWN: Final = (500, "handler-error", "The handler failed")


class Problem(msgspec.Struct, frozen=True):
    """One error as HTTP says it. `type` is a URI; members that are None are left out of the body."""

    status: int
    type: str
    title: str
    detail: str
    field: str | None = None
    error: str | None = None
    retry_after_s: float | None = None
    traceback: tuple[str, ...] | None = None

    @classmethod
    def of(cls, error: BaseException, *, debug: bool = False) -> Problem:
        """Return what HTTP says of `error`; with `debug` the traceback too, where the fault is on this side."""
        detail = said(error)
        if isinstance(error, RemoteError):
            return cls(
                error.status, f"{_TYPE}remote-error", "A function that was called answered with an error", detail
            )
        status, kind, title = next((row[1:] for row in _KINDS if isinstance(error, row[0])), _UNKNOWN)
        name = None
        if kind == _UNKNOWN[1]:
            name, detail = type(error).__name__, named(error)
        elif isinstance(error, HandlerError) and isinstance(error.__cause__, StopIteration):
            name = type(error.__cause__).__name__  # no coroutine can raise it, so it came wrapped
        return cls(
            status,
            _TYPE + kind,
            title,
            detail,
            field=error.field if isinstance(error, SchemaMismatch) else None,
            error=name,
            retry_after_s=error.retry_after_s if isinstance(error, Refused) else None,
            traceback=_lines(error) if debug and status == 500 else None,
        )

    @classmethod
    def plain(cls, status: int, detail: str) -> Problem:
        """Return a problem that is wholly said by its status, such as 404 and 405."""
        return cls(status, "about:blank", http.HTTPStatus(status).phrase, detail)

    @property
    def is_servers(self) -> bool:
        """Whether the fault is the server's or the handler's, so that its traceback belongs in the log."""
        return self.status == 500

    def body(self, request_id: str) -> bytes:
        """Return the body, valid UTF-8 JSON whatever the error quotes."""
        members = {name: getattr(self, name) for name in _MEMBERS}
        said: dict[str, Any] = {name: value for name, value in members.items() if value is not None}
        if len(self.detail) > _MAX_DETAIL_LENGTH:
            said["detail"] = f"{self.detail[:_MAX_DETAIL_LENGTH]}... ({len(self.detail)} characters in all)"
        return codec.encode(said | {"request_id": request_id})

    def headers(self, body: bytes) -> list[tuple[bytes, bytes]]:
        """Return the headers that go with `body`."""
        headers = [(b"content-type", MEDIA_TYPE), (b"content-length", b"%d" % len(body))]
        if self.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % max(1, math.ceil(self.retry_after_s))))
        return headers


_MEMBERS: Final = Problem.__struct_fields__


def _lines(error: BaseException) -> tuple[str, ...]:
    return tuple("".join(traceback.format_exception(error)).splitlines())
