"""JSON, strict both ways.

NaN and infinities are refused in a body and written as null; a lone surrogate is refused, and written as U+FFFD.
Arrays, tensors and pydantic models are known where the user's own module has imported them.
"""

from __future__ import annotations

import codecs
import os
from collections import deque
from collections.abc import Callable, Mapping, MappingView
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from faas import arrays, hints
from faas.errors import HandlerError, MalformedBody, SchemaMismatch

BEFORE: Final = b" \t\r\n" + codecs.BOM_UTF8
"""The bytes that may stand before a value."""
_INNER: Final = "\0"
"""What stands between a message and a place within the value that it is about."""


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of `kind`, made once.

    Raises:
        TypeError: `kind` is nothing that JSON can be read as.
    """
    return msgspec.json.Decoder(kind, dec_hook=_decode_hook)


def decode(body: bytes, made: msgspec.json.Decoder[Any]) -> Any:
    """Read a body.

    Raises:
        MalformedBody: not JSON.
        SchemaMismatch: JSON of another type; names the field.
    """
    try:
        return made.decode(body)
    except msgspec.ValidationError as error:
        raise mismatch(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if body.startswith(codecs.BOM_UTF8) and not body.startswith(codecs.BOM_UTF8 * 2):  # one, as RFC 8259 allows
            return decode(body.removeprefix(codecs.BOM_UTF8), made)
        raise MalformedBody(f"the body is not valid JSON: {_said(body, error)}") from None


def _said(body: bytes, error: Exception) -> str:
    """Return what is wrong with a body; the decoder calls a lone surrogate and an empty body truncated."""
    if not body.strip():
        return "it is empty"
    if "truncated" in str(error) and b"\\ud" in body.lower():
        return f"{error}, or it holds half of a surrogate pair"
    return str(error)


def decode_value(body: bytes) -> Any:
    """Read any JSON.

    Raises:
        MalformedBody: not JSON.
    """
    return decode(body, _ANY)


def convert(value: Any, kind: Any) -> Any:
    """Turn what JSON decodes to into `kind`.

    Raises:
        SchemaMismatch: it does not fit; names the field.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=_decode_hook)
    except msgspec.ValidationError as error:
        raise mismatch(error) from None


def _decode_hook(kind: Any, value: Any) -> Any:
    if arrays.is_array_type(kind):
        return arrays.decode(kind, value)
    if hasattr(kind, "model_validate"):
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise ValueError(f"{_one_line(error)}{_INNER}{_inner_path(error)}") from None
    raise NotImplementedError(f"no rule turns JSON into {hints.type_title(kind)}")


def _one_line(error: Exception) -> str:
    details = getattr(error, "errors", None)
    if callable(details):
        return "; ".join(": ".join(filter(None, (".".join(map(str, d["loc"])), d["msg"]))) for d in details())
    return str(error)


def _inner_path(error: Exception) -> str:
    """Return where in a model the first thing is that does not fit."""
    details = getattr(error, "errors", None)
    where = details()[0]["loc"] if callable(details) else ()
    return "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in where)


def schema_hook(kind: Any) -> dict[str, Any]:
    """Return the JSON schema of a type that the schema generator does not know."""
    if arrays.is_array_type(kind):
        return arrays.json_schema(kind)
    if hasattr(kind, "model_json_schema"):
        schema: dict[str, Any] = kind.model_json_schema()
        return schema
    raise NotImplementedError(hints.type_title(kind))


def mismatch(error: msgspec.ValidationError) -> SchemaMismatch:
    """Return the error of ours that says what `error` says, with the path of the field."""
    text, _, path = str(error).partition(" - at `")
    text, _, inner = text.partition(_INNER)
    path = path.rpartition("` in `")[2]  # of a key it is that of the object
    path = (path.rstrip("`").replace("[...]", "[]") or "$") + inner
    for marker in ("missing required field `", "contains unknown field `"):
        if marker in text:
            path = f"{path}.{text.rpartition(marker)[2].rstrip('`')}"
    return SchemaMismatch(text, path)


def encode(value: Any) -> bytes:
    """Write `value` as JSON: NaN and infinities as null, arrays as lists, lone surrogates as U+FFFD.

    Raises:
        HandlerError: a part of it is of a type that JSON has no form for.
    """
    try:
        try:
            return _ENCODER.encode(value)
        except UnicodeEncodeError:
            return _ENCODER.encode(_scrubbed(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise HandlerError(f"the answer cannot be written as JSON: {error}") from None


def encode_hook(value: Any) -> Any:
    """Return what is written for a value that the encoder does not know.

    Raises:
        TypeError: JSON has no form for it.
    """
    plain = arrays.to_plain(value)
    if plain is not NotImplemented:
        return plain
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)  # as the schema says, and as it is read
    if value is None or isinstance(value, bool):
        return _KEYS[value]
    if type(value).__name__ in _MISSING and type(value).__module__.startswith("pandas."):
        return None
    for kind, as_plain in _LIKE:
        if isinstance(value, kind):
            return as_plain(value)
    for name in _AS_PLAIN:
        if callable(getattr(value, name, None)) and not isinstance(value, type):
            return getattr(value, name)()
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} has no JSON form{_advice(value)}")


def _advice(value: Any) -> str:
    if hasattr(value, "__next__") or hasattr(value, "__anext__"):
        return "; what a plain def gives is streamed where it is annotated to be an Iterator or an AsyncIterator"
    if hasattr(value, "__await__"):
        return "; what has to be awaited belongs in an async def"
    if hasattr(value, "columns"):
        return "; of a table give its rows, such as frame.to_dict('records')"
    if hasattr(value, "getbands"):
        return "; of an image give the bytes of a file: save it into an io.BytesIO"
    return "; give its values, such as matrix.toarray()" if hasattr(value, "toarray") else ""


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_scrubbed(k): _scrubbed(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_scrubbed(v) for v in value]
    if value is None or isinstance(value, int | float):
        return value
    return _scrubbed(msgspec.to_builtins(value, enc_hook=encode_hook, str_keys=True))


_KEYS: Final = {None: "null", True: "true", False: "false"}
"""What JSON has for such a key of an object, as Python's own encoder writes it."""

_LIKE: Final[tuple[tuple[Any, Callable[[Any], Any]], ...]] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (Mapping, dict),
    ((deque, range, MappingView), list),
    (os.PathLike, os.fspath),
    (datetime, lambda one: datetime.combine(date(one.year, one.month, one.day), one.timetz())),
    (date, lambda one: date(one.year, one.month, one.day)),
    (time, lambda one: time(one.hour, one.minute, one.second, one.microsecond, one.tzinfo)),
    (timedelta, lambda one: timedelta(one.days, one.seconds, one.microseconds)),
    (Decimal, Decimal),
)
"""What is written as something else is, of which it is a kind; a class of the user's made of one of these, too."""

_AS_PLAIN: Final = ("tolist", "numpy")
"""What other libraries call it: columns and indices of tables, arrays of accelerators, Python's own arrays; tensors."""

_MISSING: Final = ("NaTType", "NAType")
"""Kinds of nothing that pandas has beside NaN; the first is a moment as well, which has no year."""

_ENCODER = msgspec.json.Encoder(enc_hook=encode_hook)
_ANY = decoder(Any)
