"""What tells two values apart in different processes, where neither identity nor `==` can."""

from __future__ import annotations

import collections
import contextlib
import datetime
import decimal
import enum
import fractions
import pathlib
import re
import sys
import types
import uuid
from typing import Any, Final

from blake3 import blake3

from faas import modules

_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes)
_SEQUENCES: Final = (list, tuple, collections.deque)
_SETS: Final = (set, frozenset)
_MAPPINGS: Final = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter, types.MappingProxyType)
_SHOWN: Final = (
    pathlib.PurePath, decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern, range,
    datetime.date, datetime.time, datetime.timedelta,
)  # fmt: skip
"""Types whose values say all of themselves."""
_DEEPEST: Final = 20


def is_plain(value: object) -> bool:
    """Tell whether a value is a text, a number or the like, or a container of such."""
    if type(value) in (list, tuple, set, frozenset):
        return all(is_plain(one) for one in value)  # type: ignore[attr-defined]
    if type(value) is dict:
        return all(is_plain(one) for pair in value.items() for one in pair)
    return type(value) in _PLAIN


def kind_of(value: object) -> str:
    """Return what a value is without what is in it: a plain one's text, where a function or a class is defined, else
    the type."""
    if is_plain(value):
        return repr(_ordered(value))
    if isinstance(value, types.FunctionType | type):
        return f"{value.__module__}:{value.__qualname__}"
    return f"{type(value).__module__}.{type(value).__qualname__}"


def summary(value: object) -> str:
    """Return what a value is and what is in it: items, attributes of the user's objects, numbers of arrays.

    Of what libraries make, such as a client or a lock, that is the type alone.
    """
    return _summary(value, ())


def _summary(value: Any, above: tuple[int, ...]) -> str:
    kind = kind_of(value)
    if is_plain(value) or isinstance(value, types.FunctionType | type):
        return kind
    if id(value) in above or len(above) == _DEEPEST:
        return f"{kind} ..."
    inner = (*above, id(value))
    if isinstance(value, enum.Enum):
        return f"{kind}.{value.name}"
    if isinstance(value, _SHOWN):
        return f"{kind} {value!r}"
    if type(value) in _SEQUENCES:
        return f"{kind} [{', '.join(_summary(one, inner) for one in list(value))}]"
    if type(value) in _SETS:
        return f"{kind} [{', '.join(sorted(_summary(one, inner) for one in list(value)))}]"
    if type(value) in _MAPPINGS:
        pairs = (f"{_summary(key, inner)}: {_summary(one, inner)}" for key, one in list(value.items()))
        return f"{kind} {{{', '.join(pairs)}}}"
    if (numbers := _numbers(value)) is not None:
        return f"{kind} {numbers}"
    if modules.is_users(sys.modules.get(type(value).__module__) or types.ModuleType("gone")):
        return f"{kind} {_summary(_attributes(value), inner)}"
    return kind


def _numbers(value: Any) -> str | None:
    """Return what an array or a tensor in this machine's memory holds; None for all else."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.device.type == "cpu":
        with contextlib.suppress(RuntimeError, TypeError):  # one that is not laid out as such
            value = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    if numpy is None or not isinstance(value, numpy.ndarray) or value.dtype.hasobject:
        return None
    return f"{value.dtype.str} {value.shape} {blake3(numpy.ascontiguousarray(value).tobytes()).hexdigest()}"


def _attributes(value: object) -> dict[str, Any]:
    """Return an object's attributes, and those in slots, without asking it for any."""
    found: dict[str, Any] = {}
    for kind in type(value).__mro__:
        for name, slot in list(vars(kind).items()):
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # nothing is in it
                    found[name] = slot.__get__(value)
    with contextlib.suppress(AttributeError):  # it has slots alone
        found |= object.__getattribute__(value, "__dict__")
    return found


def _ordered(value: Any) -> Any:
    """Return a plain value with sets as sorted lists, whose order is another in each process."""
    if type(value) in _SETS:
        return [type(value).__name__, *sorted((_ordered(one) for one in value), key=repr)]
    if type(value) in (list, tuple):
        return type(value)(_ordered(one) for one in value)
    if type(value) is dict:
        return {key: _ordered(one) for key, one in value.items()}
    return value
