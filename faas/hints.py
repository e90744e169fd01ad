"""Annotations as users write them, read for what a body must be and what kind of handler it is."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from faas import arrays
from faas.arrays import Array
from faas.errors import SettingError

Kind = Literal["plain", "async", "generator", "async_generator"]

_READ_MODULES = ("builtins", "typing", "collections.abc", "datetime", "decimal", "uuid", "msgspec")
_STREAMS = (Iterator, AsyncIterator, typing.Generator, typing.AsyncGenerator, typing.Iterable, typing.AsyncIterable)
_STREAM_ORIGINS = {get_origin(s) or s for s in _STREAMS}
_ITERATORS: dict[Any, Kind] = {
    Iterator: "generator",
    Generator: "generator",
    AsyncIterator: "async_generator",
    AsyncGenerator: "async_generator",
}


def read(fn: Callable[..., Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of `fn`; `scope` holds names they may use beside the module's.

    Raises:
        SettingError: one cannot be read.
    """
    try:
        return typing.get_type_hints(inspect.unwrap(fn), localns=dict(scope), include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise SettingError(f"{title(fn)}: its annotations cannot be read: {error}") from None


def title(fn: Callable[..., Any]) -> str:
    """Return how `fn` is called in messages."""
    name: str | None = getattr(fn, "__qualname__", None)
    return repr(fn) if name is None else name


def kind_of(fn: Callable[..., Any], returns: Any = Any) -> Kind:
    """Return what kind of handler `fn` is; `returns` is its annotation.

    Of a function that a decorator has wrapped the wrapper counts, unless that is a plain one: then what it hands on is
    what the function within gives. A plain function that is annotated to return an iterator streams what that gives.
    """
    for one in (fn, inspect.unwrap(fn)):
        if inspect.isasyncgenfunction(one):
            return "async_generator"
        if inspect.iscoroutinefunction(one):
            return "async"
        if inspect.isgeneratorfunction(one):
            return "generator"
    given = get_origin(returns) or returns
    return next((kind for iterator, kind in _ITERATORS.items() if given is iterator), "plain")


def type_title(hint: Any) -> str:
    """Return how a type is called in messages."""
    name = None if get_args(hint) else getattr(hint, "__name__", None)
    return name or str(hint).replace("typing.", "")


def item_type(hint: Any) -> tuple[Any, str | None]:
    """Return the type of an item of a batch annotated `hint`, and its array library; (None, None) if it is no batch.

    What is an array or None is one that an item may leave out.
    """
    within = optional(hint)
    if within is not None:
        item, library = item_type(within)
        return (None, None) if library is None else (item | None, library)
    if hint is Any or hint in (list, Sequence, typing.Sequence, typing.List):  # noqa: UP006
        return Any, None
    origin, args = get_origin(hint), get_args(hint)
    if origin in (list, Sequence):
        return adapted(args[0]), None
    library = library_of(hint)
    if library is None:
        return None, None
    array = declared_array(hint)
    return arrays.array_type(library, array.item() if array is not None else None), library


def rows_type(hint: Any) -> tuple[Any, str | None]:
    """Return what `item_type` does, of an item that is a piece of such a batch: several rows of it."""
    within = optional(hint)
    if within is not None:
        rows, library = rows_type(within)
        return (None, None) if library is None else (rows | None, library)
    item, library = item_type(hint)
    if item is None:
        return None, None
    if library is not None:
        return arrays.array_type(library, declared_array(hint)), library
    return list[item], None  # type: ignore[valid-type]


def optional(hint: Any) -> Any:
    """Return what a hint is, if not None; None for any other hint."""
    if get_origin(hint) not in (Union, types.UnionType):
        return None
    others = [one for one in get_args(hint) if one is not type(None)]
    return others[0] if len(others) == 1 else None


def is_numbers(kind: Any) -> bool:
    """Tell whether `kind` is a list of numbers, or of lists of them."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return is_numbers(args[0])
    if origin not in (list, Sequence) or not args:
        return False
    inner = get_args(args[0]) if get_origin(args[0]) in (Union, types.UnionType) else args
    return all(one in (int, float, bool) for one in inner) or is_numbers(args[0])


def declared_array(hint: Any) -> Array | None:
    """Return the `Array` that an `Annotated` hint carries."""
    return (
        next((a for a in get_args(hint)[1:] if isinstance(a, Array)), None) if get_origin(hint) is Annotated else None
    )


def library_of(hint: Any) -> str | None:
    """Return "numpy" or "torch" where `hint` is an array of that library, annotated or not."""
    origin = get_origin(hint)
    if origin is Annotated:
        return library_of(get_args(hint)[0])
    return arrays.library_of(origin if isinstance(origin, type) else hint)


def adapted(hint: Any) -> Any:
    """Replace what the decoder does not know by itself: arrays become marker types, exceptions leave unions."""
    origin, args = get_origin(hint), get_args(hint)
    library = library_of(hint)
    if library is not None:
        return arrays.array_type(library, declared_array(hint))
    if hint is inspect.Signature.empty or hint is object:
        return Any
    if origin in (Union, types.UnionType):
        kept = [adapted(a) for a in args if not (isinstance(a, type) and issubclass(a, BaseException))]
        return Union[tuple(kept)] if kept else Any  # noqa: UP007 (made at run time)
    if origin is Annotated:
        return Annotated[(adapted(args[0]), *args[1:])]
    if origin in (list, tuple, set, frozenset, dict) and args:
        return origin[tuple(a if a is Ellipsis else adapted(a) for a in args)]
    return hint


def without_json(kind: Any) -> Any:
    """Return a class in `kind` of which no JSON can be made, None where there is none (of a union one that can do)."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return without_json(args[0])
    if origin in (Union, types.UnionType):
        found = [without_json(a) for a in args if a is not type(None)]
        return found[0] if found and None not in found else None
    if origin in (list, tuple, set, frozenset):
        return next((odd for a in args if a is not Ellipsis and (odd := without_json(a)) is not None), None)
    if kind is complex:
        return kind
    if origin is not None or not isinstance(kind, type) or is_object(kind) or arrays.is_array_type(kind):
        return None
    known = kind.__module__ in _READ_MODULES or issubclass(kind, enum.Enum) or hasattr(kind, "_fields")
    return None if known else kind


def return_type(hint: Any, kind: Kind, batched: bool, *, rows: bool = False) -> Any:
    """Return the type of one caller's answer, or of one event where the handler streams."""
    origin, args = get_origin(hint), get_args(hint)
    if kind in ("generator", "async_generator") and origin in _STREAM_ORIGINS and args:
        hint = args[0]
    if hint is type(None):
        hint = None
    if not batched:
        return adapted(hint)
    item, library = item_type(hint) if hint is not None else (Any, None)
    if rows and item is not None:
        return adapted(hint) if library is not None else list[adapted(item)]  # type: ignore[misc]
    return Any if item is None else adapted(item)


def is_object(kind: Any) -> bool:
    """Tell whether a JSON object can be a value of this type itself."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is Annotated:
        return is_object(args[0])
    if origin in (Union, types.UnionType):
        return any(is_object(a) for a in args)
    if origin is not None:
        return isinstance(origin, type) and is_object(origin)  # of a generic class, too
    if not isinstance(kind, type):
        return typing.is_typeddict(kind)
    if issubclass(kind, dict | msgspec.Struct | Mapping) or hasattr(kind, "__dataclass_fields__"):
        return True
    return hasattr(kind, "model_validate") or hasattr(kind, "__attrs_attrs__")
