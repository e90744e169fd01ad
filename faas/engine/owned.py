"""What a handler gives, as it was when it gave it.

An answer is written a little later than it is given, and meanwhile the handler goes on: a generator adds to the list
that it yielded, the next batch is computed into the same buffer, a state that was returned changes. Whoever waits for
an answer gets what it was. What JSON is made of later is copied as JSON has it, so that this costs a fraction of
writing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from faas import arrays, codec
from faas.engine.outcomes import Raised
from faas.messages import END

_STAY: Final = frozenset((str, int, float, bool, type(None), bytes, Raised, type(END)))
"""Types of what cannot change, or is no answer."""


def owned(value: Any) -> Any:
    """Return a value that no handler can change any more: itself where none could."""
    kind = type(value)
    if kind in _STAY or isinstance(value, BaseException):
        return value
    if kind is not dict and kind is not list:
        whole = owned_array(value)
        if whole is not value:
            return whole
        if kind is bytearray or kind is memoryview:
            return bytes(value)
    try:
        return msgspec.to_builtins(value, enc_hook=codec.encode_hook)
    except (
        Exception
    ):  # there is more in it than a copy can be made of: what is wrong with it is said when it is written
        return _taken_apart(value)


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


def _taken_apart(value: Any) -> Any:
    """Return a container with what can be owned of its content; anything else as it is, for it may be a whole model."""
    try:
        if isinstance(value, dict):
            return {key: owned(held) for key, held in value.items()}
        return [owned(held) for held in value] if isinstance(value, list | tuple) else value
    except RecursionError:
        return value
