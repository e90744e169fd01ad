"""Headers in and out: the caller's as handlers see them, request ids, the numbers that callers may state."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from faas.errors import MalformedBody
from faas.messages import Turn

REQUEST_ID: Final = b"x-request-id"
INSTANCE_ID: Final = b"x-instance-id"
TIMEOUT_MS: Final = b"x-request-timeout-ms"
PRIORITY: Final = b"x-priority"
QUEUE_TIMEOUT_MS: Final = b"x-queue-timeout-ms"
SEQUENCE_ID: Final = b"x-sequence-id"
SEQUENCE_START: Final = b"x-sequence-start"
SEQUENCE_END: Final = b"x-sequence-end"
COLD: Final = b"x-faas-cold"
ACTIVATE_MS: Final = b"x-faas-activate-ms"

_NOTES: Final = {
    "cache": b"x-cache",
    "variant": b"x-model-variant",
    "confidence": b"x-confidence",
    "default": b"x-default-answer",
}

_SINGLE: Final = frozenset((b"content-type", b"content-length", REQUEST_ID, TIMEOUT_MS, PRIORITY, QUEUE_TIMEOUT_MS))

_ID_BYTES: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/+=@-"
_MAX_ID_LENGTH: Final = 128
_TRACEPARENT: Final = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


class RequestIds:
    """Makes the ids of requests that bring none: a random part of this process, drawn at the first one, and a count."""

    def __init__(self) -> None:
        self._prefix = b""
        self._next = itertools.count(1).__next__

    def of(self, stated: bytes | None) -> bytes:
        """Return the caller's own id where it is fit to be sent and logged, else a new one."""
        if stated and len(stated) <= _MAX_ID_LENGTH and not stated.translate(None, _ID_BYTES):
            return stated
        if not self._prefix:
            self._prefix = os.urandom(6).hex().encode()
        return b"%s-%x" % (self._prefix, self._next())


def by_name(raw: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return headers by their names, in lower case; one that comes several times as the one list that it means."""
    found = dict(raw)
    return found if len(found) == len(raw) else _joined(raw)


def _joined(raw: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Join what comes several times (RFC 9110, 5.2; of cookies RFC 9113, 8.2.3).

    A type that is said twice is still one.
    """
    found: dict[bytes, bytes] = {}
    for name, value in raw:
        before = found.get(name)
        if before is None or (before == value and name in _SINGLE):
            found[name] = value
        else:
            found[name] = b"%b%b%b" % (before, b"; " if name == b"cookie" else b", ", value)
    return found


class Headers(Mapping[str, str]):
    """A request's headers as text, read when asked for. A `traceparent` that W3C's rules reject is not among them."""

    __slots__ = ("_raw",)

    def __init__(self, raw: dict[bytes, bytes]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        key = name.encode("latin-1", "replace")
        value = self._raw[key]
        if key == b"traceparent" and _TRACEPARENT.fullmatch(value) is None:
            raise KeyError(name)
        return value.decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw if name != b"traceparent" or "traceparent" in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def timeout_s(headers: Mapping[bytes, bytes], longest_s: float) -> float:
    """Return the seconds a call may take: `longest_s`, or less if the caller says so.

    Raises:
        MalformedBody: the header holds no positive number.
    """
    return min(longest_s, _seconds(headers, TIMEOUT_MS, "X-Request-Timeout-Ms"))


def queue_timeout_s(headers: Mapping[bytes, bytes]) -> float:
    """Return the seconds for which the caller would wait in the queue; infinity where it does not say.

    Raises:
        MalformedBody: the header holds no positive number.
    """
    return _seconds(headers, QUEUE_TIMEOUT_MS, "X-Queue-Timeout-Ms")


def _seconds(headers: Mapping[bytes, bytes], header: bytes, title: str) -> float:
    stated = headers.get(header)
    if stated is None:
        return math.inf
    try:
        value = float(stated)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise MalformedBody(f"{title}: {stated.decode('latin-1')!r} is no number of milliseconds above 0")
    return value / 1000.0


def priority(headers: Mapping[bytes, bytes]) -> int:
    """Return the level that the caller chose, 1 the highest; 0 where it chose none.

    Raises:
        MalformedBody: the header holds no whole number of at least 1.
    """
    stated = headers.get(PRIORITY)
    if stated is None:
        return 0
    text = stated.strip()
    if not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise MalformedBody(f"X-Priority: {stated.decode('latin-1')!r} is no whole number of at least 1 (the highest)")
    return int(text)


def sequence(headers: Mapping[bytes, bytes]) -> Turn | None:
    """Return which sequence the call belongs to, and whether it begins or ends it; None where it belongs to none.

    Raises:
        MalformedBody: the id is empty or too long, or one of the flags is neither 0 nor 1.
    """
    stated = headers.get(SEQUENCE_ID)
    if stated is None:
        return None
    if not stated or len(stated) > _MAX_ID_LENGTH:
        raise MalformedBody(f"X-Sequence-Id: write 1 to {_MAX_ID_LENGTH} characters")
    start = _flag(headers, SEQUENCE_START, "X-Sequence-Start")
    return Turn(stated.decode("latin-1"), start, _flag(headers, SEQUENCE_END, "X-Sequence-End"))


def _flag(headers: Mapping[bytes, bytes], header: bytes, title: str) -> bool:
    stated = headers.get(header, b"0")
    if stated not in (b"0", b"1"):
        raise MalformedBody(f"{title}: {stated.decode('latin-1')!r} is neither 0 nor 1")
    return stated == b"1"


def activate_ms(headers: Mapping[bytes, bytes]) -> float | None:
    """Return how long the activator held the request, if it says so."""
    try:
        value = float(headers[ACTIVATE_MS])
    except (KeyError, ValueError):
        return None
    return value if 0 <= value < math.inf else None


def noted(notes: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the headers that say what engines tell about an answer."""
    return [(_NOTES[name], text.encode("latin-1", "replace")) for name, text in notes.items()]
