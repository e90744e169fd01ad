"""Unknown keys in a body, found at any depth of the types on a signature, and defaults that were left out.

The decoder ignores keys that a dataclass or a TypedDict does not have; callers who mistype one deserve to be told. It
also leaves a dataclass's defaults to the class, and the encoder then leaves them out: an object that a function returns
as it came would have lost fields.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from faas import names
from faas.errors import SchemaMismatch

Check = Callable[[Any, str], None]


def checker(kind: Any, seen: dict[Any, list[Check]] | None = None) -> Check | None:
    """Return a check of builtins (what JSON decodes to) against `kind`, or None where no key could be unknown.

    The check is called with the value and its path, and raises SchemaMismatch that names the key. It puts the defaults
    of dataclasses into the value where they are missing.
    """
    seen = {} if seen is None else seen
    origin, args = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        return checker(args[0], seen)
    fields = fields_of(kind) if origin is None else _fields_of_generic(origin, args)
    if fields is not None:
        return _object(kind, fields, seen)
    positions = _positions(kind)
    if positions is not None:
        return _each_position([checker(a, seen) for a in positions])
    if origin in (list, set, frozenset, tuple) or (origin is not None and _is_sequence(origin)):
        inner = checker(args[0], seen) if args else None
        return None if inner is None else _each(inner)
    if origin is not None and _is_mapping(origin):
        inner = checker(args[1], seen) if len(args) > 1 else None
        return None if inner is None else _each_value(inner)
    return _any(tuple(c for c in (checker(a, seen) for a in args) if c is not None))


def _positions(kind: Any) -> list[Any] | None:
    """Return the types of the elements of a tuple that has so many; None of anything else."""
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = get_type_hints(kind, include_extras=True)
        return [hints.get(name, Any) for name in kind._fields]
    args = get_args(kind)
    return list(args) if get_origin(kind) is tuple and Ellipsis not in args else None


def _is_sequence(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, typing.Sequence) and not issubclass(origin, str | bytes)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, typing.Mapping)


def fields_of(kind: Any) -> dict[str, Any] | None:
    """Return the fields of an object type with their types; None where its keys are not known."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {f.encode_name: f.type for f in msgspec.structs.fields(kind)}
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        return get_type_hints(kind, include_extras=True)
    if isinstance(kind, type) and hasattr(kind, "__attrs_attrs__"):
        hints = get_type_hints(kind, include_extras=True)
        return {field.name: hints.get(field.name, Any) for field in kind.__attrs_attrs__}
    return None


def _fields_of_generic(origin: Any, args: tuple[Any, ...]) -> dict[str, Any] | None:
    """Return what `fields_of` does, of a generic class with the types that stand in for its variables."""
    fields = fields_of(origin)
    if fields is None:
        return None
    given = dict(zip(getattr(origin, "__parameters__", ()), args, strict=False))
    return {name: _filled_in(hint, given) for name, hint in fields.items()}


def _filled_in(hint: Any, given: dict[Any, Any]) -> Any:
    if isinstance(hint, typing.TypeVar):
        return given.get(hint, hint)
    variables = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(one, one) for one in variables)] if variables else hint


def _object(kind: Any, fields: dict[str, Any], seen: dict[Any, list[Check]]) -> Check:
    if kind in seen:
        holder = seen[kind]
        return lambda value, path: holder[0](value, path)
    seen[kind] = []
    inner = {name: checker(hint, seen) for name, hint in fields.items()}
    config: Any = getattr(kind, "__struct_config__", None)
    tag = getattr(config, "tag_field", None)
    if tag is not None:  # of a Struct that says in its JSON which one it is
        inner[tag] = None
    defaults = _defaults(get_origin(kind) or kind)

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict) or (tag is not None and value.get(tag, config.tag) != config.tag):
            return
        for key, held in value.items():
            if key not in inner:
                hint = names.suggestion(str(key), inner)
                raise SchemaMismatch(f"unknown field {key!r}{hint}; known: {', '.join(inner)}", f"{path}.{key}")
            deeper = inner[key]
            if deeper is not None:
                deeper(held, f"{path}.{key}")
        for key, default in defaults.items():
            value.setdefault(key, default)

    seen[kind].append(check)
    return check


def _defaults(kind: Any) -> dict[str, Any]:
    """Return a dataclass's plain defaults as JSON has them; one that JSON has no form for stays with the class."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        if field.init and field.default is not dataclasses.MISSING:
            with contextlib.suppress(TypeError, ValueError):
                found[field.name] = msgspec.to_builtins(field.default)
    return found


def _any(checks: tuple[Check, ...]) -> Check | None:
    """Return the check of a union. A value is of interest to one of them at most: they are of unlike JSON or tags."""
    if len(checks) < 2:
        return checks[0] if checks else None

    def check(value: Any, path: str) -> None:
        for one in checks:
            one(value, path)

    return check


def _each(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if isinstance(value, list):
            for index, held in enumerate(value):
                inner(held, f"{path}[{index}]")

    return check


def _each_position(inner: list[Check | None]) -> Check | None:
    if not any(inner):
        return None

    def check(value: Any, path: str) -> None:
        if isinstance(value, list):
            for index, (one, held) in enumerate(zip(inner, value, strict=False)):
                if one is not None:
                    one(held, f"{path}[{index}]")

    return check


def _each_value(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, held in value.items():
                inner(held, f"{path}.{key}")

    return check
