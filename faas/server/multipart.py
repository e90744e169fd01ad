"""A multipart body as keyword arguments: files for `bytes`, text for `str`, JSON for everything else."""

from __future__ import annotations

import types
from collections.abc import AsyncIterable
from typing import Annotated, Any, Final, Union, get_args, get_origin

from faas import codec
from faas.errors import MalformedBody, PayloadTooLarge

_MAX_PARTS: Final = 1000
_LISTS: Final = (list, tuple, set, frozenset)


class _Parts:
    """Receives a parser's events and collects the parts' fields: name, stated type, content."""

    def __init__(self) -> None:
        self.found: list[tuple[str, bytes, bytes]] = []
        self.ended = False
        self._content = bytearray()
        self._name = b""
        self._value = b""
        self._headers: dict[bytes, bytes] = {}

    def callbacks(self) -> Any:
        """Return the events that the parser is to report."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._all,
        }

    def _begin(self) -> None:
        if len(self.found) >= _MAX_PARTS:
            raise PayloadTooLarge(f"the multipart body has more than {_MAX_PARTS} parts; send fewer")
        self._content = bytearray()
        self._headers = {}

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._content += data[start:end]

    def _end(self) -> None:
        from python_multipart.multipart import parse_options_header  # see `read`

        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        if b"name" not in options:
            raise MalformedBody("a part of the multipart body has no name in its Content-Disposition")
        name = options[b"name"].decode("utf-8", "replace")
        self.found.append((name, self._headers.get(b"content-type", b""), bytes(self._content)))

    def _all(self) -> None:
        self.ended = True


async def read(chunks: AsyncIterable[bytes], boundary: bytes, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a multipart body, each as what converts to its type in `fields`.

    A name that comes more than once becomes a list.

    Raises:
        MalformedBody: it is no multipart body, or a part that is to be text is not UTF-8.
        PayloadTooLarge: there are too many parts.
    """
    # Few functions take files, and no cold start should pay for this import.
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import MultipartParser

    parts = _Parts()
    try:
        parser = MultipartParser(boundary, parts.callbacks())
        async for chunk in chunks:
            parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise MalformedBody(f"the body is not valid multipart/form-data: {error}") from None
    if not parts.ended:
        raise MalformedBody("the multipart body ends before its last boundary")
    held: dict[str, list[tuple[bytes, bytes]]] = {}
    for name, stated, content in parts.found:
        held.setdefault(name, []).append((stated, content))
    return {
        name: None if fields and name not in fields else _field(name, found, fields.get(name, Any))  # unknown: not read
        for name, found in held.items()
    }


def _field(name: str, found: list[tuple[bytes, bytes]], kind: Any) -> Any:
    """Return one field's value. Where the field is a list, each part is an element, or a lone one the list as JSON."""
    kinds = _members(kind)
    elements = {one for many in kinds if get_origin(many) in _LISTS for arg in get_args(many) for one in _members(arg)}
    if not elements:
        values = [_value(name, stated, content, kinds) for stated, content in found]
        return values[0] if len(values) == 1 else values
    if len(found) == 1 and bytes not in elements:
        whole = _value(name, *found[0], set())
        if isinstance(whole, list):
            return whole
    return [_value(name, stated, content, elements) for stated, content in found]


def _value(name: str, stated: bytes, content: bytes, kinds: set[Any]) -> Any:
    if bytes in kinds:
        return content
    if str not in kinds or stated.lower().startswith(b"application/json"):
        try:
            return codec.decode_value(content)
        except MalformedBody:
            pass  # whatever is no JSON is text; the schema has the last word
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise MalformedBody(f"the part {name!r} of the multipart body is neither JSON nor UTF-8 text") from None


def _members(kind: Any) -> set[Any]:
    """Return the types that a value of `kind` may have."""
    if get_origin(kind) is Annotated:
        return _members(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return {one for arg in get_args(kind) for one in _members(arg)}
    return {kind}
