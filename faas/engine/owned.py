"""What a handler gives, as it was when it gave it.

An answer is written a little later than it is given, and meanwhile the handler goes on: a generator adds to the list
that it yielded, the next batch is computed into the same buffer, a state that was returned changes. Whoever waits for
an answer gets what it was. What JSON is made of later is copied as JSON has it, so that this costs a fraction of
writing it; what is large, in pieces, since a copy in one go would hold up all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, ValuesView
from typing import Any, Final

import msgspec

from faas import arrays, codec
from faas.engine.outcomes import Raised
from faas.messages import END

MANY: Final = 1 << 16
"""Values that take long enough to copy, or to write, for others to notice."""

_STAY: Final = frozenset((str, int, float, bool, type(None), bytes, Raised, type(END)))
"""Types of what cannot change, or is no answer."""

TOGETHER: Final = 8192
"""So many are dealt with in one go."""

_FEW: Final = 16
_SHORT: Final = MANY // _FEW
_MAX_LEVELS: Final = 8
_MAX_OBJECTS: Final = 2
"""So deep are objects looked into that are in one another."""


def is_large(value: Any) -> bool:
    """Tell whether a value takes long to copy or to write, at a glance; what most answers are, in next to no time."""
    if type(value) is dict and len(value) <= _FEW:
        for held in value.values():
            kind = type(held)
            if kind in _STAY:
                continue
            if kind is not list or len(held) > _SHORT or (held and type(held[0]) not in _STAY):
                break
        else:
            return False
    return num_values(value) > MANY


def num_values(value: Any, levels: int = _MAX_OBJECTS) -> int:
    """Return about how many values there are in one, at a glance: all of a list are taken to be like its first."""
    kind, num = type(value), 1
    if kind in _STAY:
        return 1
    for _ in range(_MAX_LEVELS):
        if kind is list or kind is tuple:
            num *= len(value)
            if not num:
                return 0
            value = value[0]
            kind = type(value)
            if kind in _STAY:
                return num
        elif kind is dict:
            held = value.values()
            return num * (
                len(held) if not levels or _are_few(held) else sum([num_values(one, levels - 1) for one in held])
            )
        else:
            return num if arrays.library_of(kind) is None else num * math.prod(value.shape)
    return num


def _are_few(values: ValuesView[Any]) -> bool:
    """Tell whether these are what most answers hold: a few values that cannot change."""
    return len(values) <= _FEW and _STAY.issuperset(map(type, values))


def owned(value: Any) -> Any:
    """Return a value that no handler can change any more: itself where none could."""
    kind = type(value)
    if kind in _STAY or isinstance(value, BaseException):
        return value
    if kind is dict and (copy := _copied(value)) is not None:
        return copy
    if kind is not dict and kind is not list:
        whole = owned_array(value)
        if whole is not value:
            return whole
        if kind is bytearray or kind is memoryview:
            return bytes(value)
    elif is_large(value):
        return {key: owned(held) for key, held in value.items()} if kind is dict else _in_pieces(value)
    try:
        return msgspec.to_builtins(value, enc_hook=codec.encode_hook)
    except Exception:  # there is more in it than JSON has, or so it seems; that is said when it is written
        return _taken_apart(value)


def _copied(value: dict[Any, Any]) -> dict[Any, Any] | None:
    """Return a copy of what most answers are, a few values that cannot change or short lists of such; None of others.

    That takes a third of the time of a general copy.
    """
    if len(value) > _FEW:
        return None
    copy = value.copy()
    for key, held in value.items():
        if type(held) not in _STAY:
            if type(held) is not list or len(held) > _FEW or not _STAY.issuperset(map(type, held)):
                return None
            copy[key] = held.copy()
    return copy


def owned_all(values: Sequence[Any]) -> list[Any]:
    """Return each of `values` as `owned` does."""
    return [value if type(value) in _STAY else owned(value) for value in values]


def owned_array(value: Any) -> Any:
    """Return a copy of an array, of a tensor in the memory of this process; anything else as it is."""
    library = arrays.library_of(type(value))
    if library == "numpy":
        return value.copy()
    if library == "torch":
        return value.detach().to("cpu", copy=True)
    return value


def pieces(num: int, num_values_in_all: int) -> list[slice]:
    """Return slices of a list of `num` elements, each with few enough values to be dealt with in one go."""
    step = max(1, TOGETHER * num // max(num, num_values_in_all))
    return [slice(begin, begin + step) for begin in range(0, num, step)]


def _in_pieces(values: list[Any]) -> list[Any]:
    num = num_values(values)
    if num > len(values) * TOGETHER:
        return [owned(value) for value in values]
    whole: list[Any] = []
    for piece in pieces(len(values), num):
        whole += owned(values[piece])
    return whole


def _taken_apart(value: Any) -> Any:
    """Return a container with what can be owned of its content; anything else as it is, for it may be a whole model."""
    try:
        if isinstance(value, dict):
            return {key: owned(held) for key, held in value.items()}
        return [owned(held) for held in value] if isinstance(value, list | tuple) else value
    except RecursionError:
        return value
