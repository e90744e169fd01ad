"""What payloads name: how functions, classes and the like that travel by value are put together again.

Everything is put together within a `Rebuilding`, which says what modules the code belongs to. Code of a module that
travels as source gets that module's globals; code of `__main__` and the like gets those of a module made for it, which
stands in `sys.modules` under a name of its own, so that state frozen here can refer to what it defines.
"""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import functools
import importlib
import io
import marshal
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from faas.function import Function, make

MAIN = "__main__"
_HOOK = "__init_subclass__"


class Rebuilding:
    """One payload while it is unpickled.

    made: name in the payload -> name here, of the modules that are made for code without a file
    """

    def __init__(self, code: Path, made: Mapping[str, str]) -> None:
        self._code = code
        self._made = made
        self._compiled: list[tuple[type, str, Callable[..., Any], tuple[Any, ...]]] = []
        self._functions: list[tuple[Function, Any, dict[str, Any]]] = []

    def module_name(self, name: str) -> str:
        """Return what a module of the payload is called here."""
        return self._made.get(name, name)

    def globals_of(self, name: str) -> dict[str, Any]:
        """Return the globals of a module, made or imported now if need be."""
        if name not in self._made:
            return vars(importlib.import_module(name))
        return vars(self.module(name))

    def module(self, name: str) -> types.ModuleType:
        """Return a module that is made for code without a file, made now if need be."""
        here = self._made[name]
        module = sys.modules.get(here)
        if module is None:
            module = sys.modules[here] = types.ModuleType(here)
            module.__file__ = self.source("__main__.py")
            vars(module)["__builtins__"] = builtins  # imports by compiled code look there, torch's for one
        return module

    def is_of_file(self, kind: type) -> bool:
        """Tell whether a class is one of the bundle's modules that have files."""
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        return kind.__module__ not in self._made.values() and str(file).startswith(f"{self._code}/")

    def is_users(self, kind: type) -> bool:
        """Tell whether a class is the user's, from a file or by value."""
        return kind.__module__ in {*self._made, *self._made.values()} or self.is_of_file(kind)

    def source(self, filename: str) -> str:
        """Return where the source lies that code was compiled from."""
        return str(self._code / filename)

    def later(self, function: Function, user: Any, settings: dict[str, Any]) -> None:
        """Complete a function when all that it is made of is."""
        self._functions.append((function, user, settings))

    def compile_later(self, kind: type, compiled: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]]) -> None:
        """Give a class attributes that are made of what has to be complete."""
        self._compiled.extend((kind, name, maker, args) for name, (maker, args) in compiled.items())

    def finish(self) -> None:
        """Complete what was left. Raises SettingError."""
        for kind, name, maker, args in self._compiled:
            type.__setattr__(kind, name, maker(*args))
        for function, user, settings in self._functions:
            vars(function).update(vars(make(user, settings)))


_current: contextvars.ContextVar[Rebuilding] = contextvars.ContextVar("rebuilding")


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, found: Any) -> Any:
        """Return what stands for an object in the stream: it itself."""
        return found


def unpickle(payload: bytes, rebuilding: Rebuilding) -> Any:
    """Return what a payload holds, with all of it complete."""
    token = _current.set(rebuilding)
    try:
        found = _Unpickler(io.BytesIO(payload)).load()
        rebuilding.finish()
        return found
    finally:
        _current.reset(token)


def code(marshalled: bytes) -> types.CodeType:
    """Return compiled code, whose file is that in the bundle."""
    return _moved(marshal.loads(marshalled))


def _moved(compiled: types.CodeType) -> types.CodeType:
    consts = tuple(_moved(one) if isinstance(one, types.CodeType) else one for one in compiled.co_consts)
    filename = compiled.co_filename
    if not filename.startswith("<"):
        filename = _current.get().source(filename)
    return compiled.replace(co_consts=consts, co_filename=filename)


def function(module: str, marshalled: bytes, name: str, closure: tuple[Any, ...] | None) -> types.FunctionType:
    """Return a function of a module, to be completed by `set_function`."""
    return types.FunctionType(code(marshalled), _current.get().globals_of(module), name, None, closure)


def set_function(made: types.FunctionType, state: dict[str, Any]) -> None:
    """Give a function what it was made with, and its module the globals that the function reaches."""
    for name in state.pop("imports"):
        importlib.import_module(name)
    made.__globals__.update(state.pop("globals"))
    vars(made).update(state.pop("attributes"))
    state["__module__"] = _module_here(state["__module__"])
    for name, value in state.items():
        setattr(made, name, value)


def cell() -> types.CellType:
    """Return a variable of a closure, empty as yet."""
    return types.CellType()


def set_cell(made: types.CellType, content: tuple[Any, ...]) -> None:
    """Give it its value."""
    (made.cell_contents,) = content


def class_(maker: Callable[..., type], args: tuple[Any, ...]) -> type:
    """Return a class, as cloudpickle makes it; to be completed by `set_class`."""
    with _unannounced(args):
        return maker(*args)


def set_class(made: type, state: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]) -> None:
    """Give a class its attributes, as cloudpickle does, and its module the globals that it reaches."""
    from cloudpickle import cloudpickle  # slow to import, and nothing to a bundle without a payload

    attributes, slots, named = state
    cloudpickle._class_setstate(made, (attributes, slots))
    made.__module__, made.__qualname__ = _module_here(made.__module__), named["name"]
    set_globals(made, (named["module"], named["globals"]))
    _current.get().compile_later(made, named["compiled"])
    for name, held in named["members"].items():
        vars(made.__members__[name]).update(held)  # type: ignore[attr-defined]  # an enumeration
    asked = next((kind for kind in made.__mro__[1:] if _HOOK in vars(kind)), object)
    if _current.get().is_of_file(asked):
        super(made, made).__init_subclass__()  # type: ignore[arg-type]  # `made` is a class


@contextlib.contextmanager
def _unannounced(args: tuple[Any, ...]) -> Iterator[None]:
    """Keep the user's own bases from being told of a class that is still empty.

    What a base that travels by value did then travels as well; one that a file defines is told when the class is whole.
    """
    bases = next((types.resolve_bases(arg) for arg in args if isinstance(arg, tuple)), ())
    hooks = {kind: vars(kind)[_HOOK] for base in bases for kind in base.__mro__ if _HOOK in vars(kind)}
    hushed = {kind: hook for kind, hook in hooks.items() if _current.get().is_users(kind)}
    for kind in hushed:
        type.__delattr__(kind, _HOOK)
    try:
        yield
    finally:
        for kind, hook in hushed.items():
            type.__setattr__(kind, _HOOK, hook)


def set_globals(made: object, state: tuple[str, dict[str, Any]]) -> None:
    """Give a module globals that something of it reaches."""
    module, globals_ = state
    if globals_:
        _current.get().globals_of(module).update(globals_)


def declared(metaclass: type, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], options: Any) -> type:
    """Return a class that its metaclass makes from its declaration."""
    body = {**namespace, "__module__": _module_here(namespace["__module__"])}
    return types.new_class(name, bases, {"metaclass": metaclass, **options}, lambda scope: scope.update(body))


def struct_field(default: Any, default_factory: Any, name: str | None) -> Any:
    """Return what a field of a msgspec Struct is declared with."""
    field: Any = msgspec.field
    return field(default=default, default_factory=default_factory, name=name)


def constraints(options: Mapping[str, Any]) -> msgspec.Meta:
    """Return what msgspec is told of a type's values: their range, their length and so on."""
    return msgspec.Meta(**options)


def typed_dict(name: str, namespace: dict[str, Any], total: bool) -> Any:
    """Return a TypedDict; `total` is what it says of itself, its keys say for themselves whether they are required."""
    from typing import TypedDict

    body = {**namespace, "__module__": _module_here(namespace["__module__"])}
    made: Any = types.new_class(name, (TypedDict,), {}, lambda scope: scope.update(body))
    made.__total__ = total
    return made


def cached_property(getter: Any, name: str | None, doc: str | None) -> Any:
    """Return a property that is computed once; the lock of Python 3.11's cannot be pickled."""
    made: Any = functools.cached_property(getter)
    made.attrname, made.__doc__ = name, doc
    return made


def set_attributes(made: object, state: Any) -> None:
    """Give an object its attributes without asking its class, whose `__getattr__` may need them."""
    plain, slots = state if isinstance(state, tuple) else (state, None)
    if plain:
        vars(made).update(plain)
    for name, value in (slots or {}).items():
        object.__setattr__(made, name, value)


def lru_cache(wrapped: Any, parameters: dict[str, Any]) -> Any:
    """Return a function that remembers its answers, with none remembered yet."""
    return functools.lru_cache(**parameters)(wrapped)


def exception(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Return an exception as it was, without its `__init__`."""
    return kind.__new__(kind, *args)


def single_dispatch(function: Any, registered: Mapping[type, Any]) -> Any:
    """Return a function that chooses among others by the type of its argument."""
    made: Any = functools.singledispatch(function)
    for kind, one in registered.items():
        made.register(kind, one)
    return made


def type_parameter(kind: Any, name: str, options: Mapping[str, Any]) -> Any:
    """Return a ParamSpec or a TypeVarTuple."""
    return kind(name, **options)


def new_type(name: str, supertype: Any, module: str) -> Any:
    """Return what stands for a type under another name, to those who check types."""
    from typing import NewType

    maker: Any = NewType  # checkers of types want it written otherwise
    made = maker(name, supertype)
    made.__module__ = _module_here(module)
    return made


def context_variable(name: str, default: Any) -> contextvars.ContextVar[Any]:
    """Return a variable of contexts that has a default."""
    return contextvars.ContextVar(name, default=default)


def faas_function() -> Function:
    """Return a function of ours, to be completed by `set_faas_function`."""
    return Function.__new__(Function)


def set_faas_function(made: Function, state: tuple[Any, dict[str, Any]]) -> None:
    """Have it completed once what it decorates is."""
    _current.get().later(made, *state)


def module(name: str) -> types.ModuleType:
    """Return a module that was made for code without a file."""
    return _current.get().module(name)


def _module_here(name: Any) -> Any:
    return _current.get().module_name(name) if isinstance(name, str) else name
