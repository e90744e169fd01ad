"""Imports of the user's own modules put off until they are used, for packages that an instance does without.

An exported model needs neither torch nor the library that it was written with, but the user's file still says
`import torch` at its top. While such a file is loaded, that gives a stand-in; the package is imported when something
of it is used. What is written in a function is imported when the function gets there, as ever.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FrameType
from typing import Any

from faas import modules

_GRADIENT_MODES = ("no_grad", "inference_mode")
_OPERATORS = ("or", "ror", "getitem", "eq", "hash", "lt", "gt", "iter", "len", "bool", "contains")


class Later:
    """Stands for a module, or for a name in one, until something is done with it."""

    def __init__(self, module: str, name: str | None = None) -> None:
        self.__dict__["_later"] = (module, name)

    def __repr__(self) -> str:
        module, name = self.__dict__["_later"]
        return f"<{module}{f'.{name}' if name else ''}, imported when it is used>"

    def __getattr__(self, name: str) -> Any:
        module, of = self.__dict__["_later"]
        if (module, of) == ("torch", None) and name in _GRADIENT_MODES and "torch" not in sys.modules:
            return functools.partial(_WithoutGradients, name)
        return getattr(resolve(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(resolve(self), name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what it stands for."""
        return resolve(self)(*args, **kwargs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (resolve(self),)

    def __instancecheck__(self, one: Any) -> bool:
        return isinstance(one, resolve(self))

    def __subclasscheck__(self, one: Any) -> bool:
        return issubclass(one, resolve(self))


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: Later, *others: Any) -> Any:
        found = resolve(self)
        return getattr(type(found), name)(found, *others)

    return operate


for _name in _OPERATORS:
    setattr(Later, f"__{_name}__", _operator(f"__{_name}__"))


class _WithoutGradients(contextlib.ContextDecorator):
    """`torch.no_grad()` and the like before torch is there: nothing is to be switched off then."""

    def __init__(self, mode: str, *args: Any) -> None:
        self._mode = mode
        self._args = args
        self._entered: list[Any] = []

    def __new__(cls, mode: str, *args: Any) -> Any:
        if args and callable(args[0]):  # a decorator that was written without its parentheses
            return cls(mode)(args[0])
        return super().__new__(cls)

    def __enter__(self) -> None:
        torch = sys.modules.get("torch")
        real = getattr(torch, self._mode)(*self._args) if torch is not None else contextlib.nullcontext()
        real.__enter__()
        self._entered.append(real)

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().__exit__(*error)


def resolve(stand_in: Later) -> Any:
    """Return what a stand-in stands for, imported now if need be, and put it in its place in the user's modules."""
    module, name = stand_in.__dict__["_later"]
    real = importlib.import_module(module)
    if name is None:
        found: Any = real
    elif hasattr(real, name):
        found = getattr(real, name)
    else:
        found = importlib.import_module(f"{module}.{name}")
    for users in modules.of_user():
        for key, value in list(vars(users).items()):
            if value is stand_in:
                setattr(users, key, found)
    return found


@contextlib.contextmanager
def importing_later(packages: Collection[str]) -> Iterator[None]:
    """Give the user's own modules stand-ins for `packages` (top-level names) where they import them while it lasts."""
    if not packages:
        yield
        return
    real_import = builtins.__import__

    def import_(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        top = name.partition(".")[0]
        if (
            level == 0
            and top in packages
            and top not in sys.modules
            and _is_users(globals)
            and "*" not in (fromlist or ())
        ):
            return _from(name, fromlist) if fromlist else _whole(name)
        return real_import(name, globals, locals, fromlist, level)

    builtins.__import__ = import_
    try:
        yield
    finally:
        builtins.__import__ = real_import


def _is_users(scope: Mapping[str, Any] | None) -> bool:
    """Tell whether an import stands in a module of the user's, outside of any function."""
    return scope is not None and modules.is_users_file(scope.get("__file__"))


def _from(name: str, fromlist: Collection[str]) -> Any:
    """Return what `from name import ...` takes its names from."""
    found = Later(name)
    for wanted in fromlist:
        found.__dict__[wanted] = Later(name, wanted)
    return found


def _whole(name: str) -> Later:
    """Return what `import a.b.c` binds to `a`; `import a.b.c as d` then takes b from that, and c from b."""
    top, *rest = name.split(".")
    found = inner = Later(top)
    path = top
    for part in rest:
        path = f"{path}.{part}"
        inner.__dict__[part] = inner = Later(path)
    return found


class Noticing:
    """Notices which of some packages are imported for real, and at which line of the user's it came to that."""

    def __init__(self, packages: Collection[str]) -> None:
        self.found: dict[str, str] = {}
        self._packages = packages
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note the import of a package, and leave it to the others to find."""
        if name in self._packages and name not in self.found:
            self.found[name] = _users_line(sys._getframe())


def _users_line(frame: FrameType | None) -> str:
    while frame is not None:
        file = frame.f_globals.get("__file__")
        if modules.is_users_file(file) and not frame.f_code.co_filename.startswith("<"):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
