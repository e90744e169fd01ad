"""What a stated media type means for the parameters of an endpoint."""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import Final, Literal

import msgspec

from faas.errors import MalformedBody, UnsupportedMedia

JSON: Final = b"application/json"
BYTES: Final = b"application/octet-stream"
EVENTS: Final = b"text/event-stream"

_CURL_DEFAULT: Final = "application/x-www-form-urlencoded"
_CHARSETS: Final = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "iso8859-1", "iso8859-15", "cp1252")


class Media(msgspec.Struct, frozen=True):
    """How to read a body. `charset` is None for UTF-8; `boundary` belongs to a multipart body."""

    form: Literal["json", "raw", "multipart"]
    charset: str | None = None
    boundary: bytes = b""


_PLAIN_JSON: Final = Media("json")
_RAW: Final = Media("raw")


@lru_cache(maxsize=256)
def of(content_type: bytes | None, raw: bool) -> Media:
    """Return how a body of this type is read; `raw` says that the one parameter takes the bytes as they are.

    No type, and the form type that curl states unasked, are JSON, or the raw bytes.

    Raises:
        UnsupportedMedia: the parameters cannot take it.
        MalformedBody: multipart without a boundary.
    """
    text = (content_type or b"").decode("latin-1")
    kind, *stated = text.split(";")
    kind = kind.strip().lower()
    options = {name.strip().lower(): value.strip().strip('"') for name, _, value in (s.partition("=") for s in stated)}
    if kind == "multipart/form-data":
        if not options.get("boundary"):
            raise MalformedBody("a multipart body needs the boundary in its Content-Type")
        return Media("multipart", boundary=options["boundary"].encode("latin-1"))
    if raw:
        return _RAW
    if kind in ("", "application/json", "text/json", _CURL_DEFAULT) or kind.endswith("+json"):
        return _json(options.get("charset", "utf-8"))
    raise UnsupportedMedia(f"a body of type {kind!r} cannot be taken: send application/json, or multipart/form-data")


def _json(charset: str) -> Media:
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        name = ""
    if name in ("utf-8", "ascii"):
        return _PLAIN_JSON
    if name not in _CHARSETS:
        raise UnsupportedMedia(f"the charset {charset!r} is not known here: send UTF-8")
    return Media("json", charset=name)


def to_utf8(body: bytes, charset: str) -> bytes:
    """Return `body`, written in `charset`, as UTF-8.

    Raises:
        MalformedBody: it is not written in that charset.
    """
    try:
        return body.decode(charset).encode()
    except UnicodeError:
        raise MalformedBody(f"the body is not the {charset} that its Content-Type says it is") from None
