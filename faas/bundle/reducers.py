"""How objects of particular kinds are taken apart: those that cloudpickle cannot pickle, or not for another process.

What belongs to one process or thread alone (the value of a context variable, what a thread keeps for itself, remembered
answers) is left behind; the object comes without it, as it was when it was made.
"""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import io
import pickle
import struct
import sys
import threading
import typing
import weakref
from collections.abc import Callable, Mapping
from types import CellType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cloudpickle import cloudpickle as internals

from faas.bundle import classes, rebuilt
from faas.bundle.shared import Reference

if TYPE_CHECKING:
    from faas.bundle.by_value import ByValue

_MADE_BY_PYTHON: Final = 1 << 9
"""Py_TPFLAGS_HEAPTYPE, of classes that are made while a program runs."""
_SINGLE_DISPATCH: Final[CodeType] = getattr(functools.singledispatch(lambda one: one), "__code__")


@dataclasses.dataclass(frozen=True, eq=False)
class Set:
    """Stands for a set, whose order is another in each process."""

    content: set[Any] | frozenset[Any]


def is_made_by_python(kind: type) -> bool:
    """Tell whether a class was made while a program ran, not by the interpreter or in C before."""
    return bool(kind.__flags__ & _MADE_BY_PYTHON)


def is_plain_exception(one: BaseException) -> bool:
    """Tell whether an exception is of a class of Python code, and holds its `args` and its attributes alone.

    Pickle would make it by calling its class with its `args`, which need not be what the class is called with.
    """
    if not is_made_by_python(type(one)) or type(one).__reduce__ is not BaseException.__reduce__:
        return False
    below = next(kind for kind in type(one).__mro__ if not is_made_by_python(kind))
    return below.__basicsize__ == BaseException.__basicsize__


def is_single_dispatch(function: FunctionType) -> bool:
    """Tell whether a function chooses another by the type of its argument: `functools.singledispatch`."""
    return function.__code__ is _SINGLE_DISPATCH


def single_dispatch(function: Any) -> Any:
    """Take such a function apart: into the one that it is made of, and those registered since."""
    registered = {kind: one for kind, one in function.registry.items() if kind is not object}
    return rebuilt.single_dispatch, (function.registry[object], registered)


def _cell(pickler: ByValue, one: CellType) -> Any:
    try:
        content = (one.cell_contents,)
    except ValueError:  # a variable that is not bound yet
        return rebuilt.cell, ()
    return rebuilt.cell, (), content, None, None, rebuilt.set_cell


def _type_variable(pickler: ByValue, one: Any) -> Any:
    maker, args = internals._typevar_reduce(one)
    return maker, classes.untracked(one, args) if maker is internals._make_typevar else args


def _type_parameter(pickler: ByValue, one: Any) -> Any:
    if pickler.goes_by_name(one):
        return str(one.__name__)
    options = ("bound", "covariant", "contravariant") if isinstance(one, typing.ParamSpec) else ()
    return rebuilt.type_parameter, (type(one), one.__name__, {key: getattr(one, f"__{key}__") for key in options})


def _new_type(pickler: ByValue, one: Any) -> Any:
    if pickler.goes_by_name(one):
        return str(one.__qualname__)
    return rebuilt.new_type, (one.__name__, one.__supertype__, one.__module__)


def _lru_cache(pickler: ByValue, one: Any) -> Any:
    if pickler.goes_by_name(one):
        return str(one.__qualname__)
    return rebuilt.lru_cache, (one.__wrapped__, one.cache_parameters())


def _context_variable(pickler: ByValue, one: contextvars.ContextVar[Any]) -> Any:
    try:
        return rebuilt.context_variable, (one.name, contextvars.Context().run(one.get))
    except LookupError:  # it has no default
        return contextvars.ContextVar, (one.name,)


def _constraints(pickler: ByValue, one: msgspec.Meta) -> Any:
    options = {name: getattr(one, name) for name in dir(one) if not name.startswith("_")}
    return rebuilt.constraints, ({name: value for name, value in options.items() if value is not None},)


def _set(pickler: ByValue, one: Set) -> Any:
    return type(one.content), (sorted(one.content, key=lambda held: f"{type(held).__name__} {held!r}"),)


def _refuse_file(pickler: ByValue, one: Any) -> Any:
    raise TypeError(f"is an open file ({getattr(one, 'name', '')})")


def is_delegating(one: object) -> bool:
    """Tell whether pickle would ask an object that is still empty for attributes that its class makes up."""
    if isinstance(one, type | ModuleType) or not hasattr(type(one), "__getattr__"):
        return False
    own = {name for base in type(one).__mro__[:-1] for name in vars(base)}
    return "__getattr__" in own and own.isdisjoint(("__setstate__", "__reduce__", "__reduce_ex__"))


def delegating(one: object) -> tuple[Any, ...]:
    """Return what pickle makes an object from that `is_delegating`."""
    reduced: Any = one.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    whole: tuple[Any, ...] = (*reduced, None, None, None)[:5]
    return whole if whole[2] is None else (*whole, rebuilt.set_attributes)


REDUCERS: Final[Mapping[type, Callable[[ByValue, Any], Any]]] = {
    CellType: _cell,
    CodeType: lambda pickler, one: (rebuilt.code, (pickler.marshalled(one),)),
    MappingProxyType: lambda pickler, one: (MappingProxyType, (dict(one),)),
    Set: _set,
    Reference: lambda pickler, one: (getattr, (sys.modules[one.module], one.name)),
    contextvars.ContextVar: _context_variable,
    msgspec.Meta: _constraints,
    functools.cached_property: lambda pickler, one: (rebuilt.cached_property, (one.func, one.attrname, one.__doc__)),
    struct.Struct: lambda pickler, one: (struct.Struct, (one.format,)),
    threading.local: lambda pickler, one: (threading.local, ()),
    type(functools.lru_cache(lambda: None)): _lru_cache,
    type(msgspec.field()): lambda pickler, one: (
        rebuilt.struct_field,
        (one.default, one.default_factory, one.name),
    ),
    typing.NewType: _new_type,
    typing.ParamSpec: _type_parameter,
    typing.TypeVar: _type_variable,
    typing.TypeVarTuple: _type_parameter,
    weakref.WeakKeyDictionary: lambda pickler, one: (weakref.WeakKeyDictionary, (dict(one),)),
    weakref.WeakValueDictionary: lambda pickler, one: (weakref.WeakValueDictionary, (dict(one),)),
    **dict.fromkeys(
        (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.FileIO), _refuse_file
    ),
}
