"""What the user's modules hold without `setup()`, so that what it changed there is found.

A namespace is a module, `app`, or a class in one, `app:Model.Inner`: what has names that can be bound anew.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from functools import _lru_cache_wrapper
from importlib.machinery import SourceFileLoader
from pathlib import PurePath
from re import Pattern
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, Final

from faas import modules
from faas.contents import Contents, is_users_function
from faas.function import class_of

_MISSING: Final = object()
_DESCRIPTORS: Final = (MemberDescriptorType, GetSetDescriptorType)
_UNCHANGING: Final = (
    type(None), bool, int, float, complex, str, bytes, range, type, PurePath, Pattern, FunctionType,
    BuiltinFunctionType, ModuleType,
)  # fmt: skip


class Known:
    """The globals of the user's modules and the attributes of their classes as they are without `setup()`.

    That is as they are now, and in modules that `setup()` imports, as they are when they have just been.
    """

    def __init__(self) -> None:
        self._contents = Contents()
        self._values: dict[tuple[str, str], tuple[object, bytes]] = {}
        self._functions: dict[int, tuple[FunctionType, bytes]] = {}
        self._caches: dict[int, tuple[_lru_cache_wrapper[Any], int]] = {}
        for module in modules.of_user():
            self._add(module)

    def changed(self) -> dict[str, dict[str, Any]]:
        """Return what has been bound since, and what was changed where it is."""
        found: dict[str, dict[str, Any]] = {}
        for module in modules.of_user():
            for namespace, name, value in _names_in(module):
                before, content = self._values.get((namespace, name), (_MISSING, b""))
                if before is not value or content != self._content(value):
                    found.setdefault(namespace, {})[name] = value
        return found

    def changed_functions(self, state: Iterable[object]) -> list[str]:
        """Return what functions hold other things than before, which no name can be bound to, in words.

        A result that a cache keeps is none of these where it is among `state`: it is not made again for that.
        """
        in_state = {id(one) for one in state}
        held = [
            f"what {_title(function)}() holds"
            for function, content in self._functions.values()
            if content != self._contents.of(function)
        ]
        kept = [
            f"what {_title(cache)}() keeps of its results"
            for cache, num_results in self._caches.values()
            if cache.cache_info().currsize > num_results
            and not _is_unchanging([one for one in _results(cache) if id(one) not in in_state])
        ]
        return [*held, *kept]

    @contextlib.contextmanager
    def with_imports(self) -> Iterator[None]:
        """While it lasts, know the modules that are imported too."""

        def exec_module(loader: SourceFileLoader, module: ModuleType) -> None:
            super(SourceFileLoader, loader).exec_module(module)
            if modules.is_users(module):
                self._add(module)

        SourceFileLoader.exec_module = exec_module  # type: ignore[assignment,method-assign]
        try:
            yield
        finally:
            del SourceFileLoader.exec_module

    def _add(self, module: ModuleType) -> None:
        for namespace, name, value in _names_in(module):
            self._values[namespace, name] = value, self._content(value)
            function = _function_of(value)
            if type(function) is _lru_cache_wrapper and is_users_function(function.__wrapped__):
                self._caches[id(function)] = function, function.cache_info().currsize
            elif is_users_function(function):
                self._functions[id(function)] = function, self._contents.of(function)

    def _content(self, value: object) -> bytes:
        """Return the digest of what a name holds. What a function holds is not the name's."""
        return b"" if _function_of(value) is not None else self._contents.of(value)


def _names_in(module: ModuleType) -> Iterator[tuple[str, str, object]]:
    """Yield the namespace, name and value of all that a module and its classes hold."""
    waiting: list[tuple[str, Any]] = [(module.__name__, module)]
    while waiting:
        namespace, place = waiting.pop()
        for name, value in list(vars(place).items()):
            if (
                name.startswith("__")
                or name == "_abc_impl"
                or type(value) in _DESCRIPTORS
                or _is_part(place, name, value)
            ):
                continue
            yield namespace, name, value
            kind = class_of(value)
            if kind is not None and kind.__module__ == module.__name__ and _is_within(kind, place):
                waiting.append((f"{namespace}{':' if place is module else '.'}{name}", kind))


def _is_part(place: object, name: str, value: object) -> bool:
    """Tell whether a name is that of a module in a package, which importing it binds."""
    return type(value) is ModuleType and value.__name__ == f"{getattr(place, '__name__', '')}.{name}"


def _is_within(kind: type, place: object) -> bool:
    """Tell whether a class is defined there, and is not another's name for it, which could go round in circles."""
    return not isinstance(place, type) or kind.__qualname__.startswith(f"{place.__qualname__}.")


def _function_of(value: Any) -> Any:
    """Return the function that a name stands for, also as a method; None for what is none."""
    if type(value) in (staticmethod, classmethod):
        value = value.__func__
    elif type(value) is property:
        value = value.fget
    return value if type(value) in (FunctionType, _lru_cache_wrapper) else None


def _title(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _results(cache: _lru_cache_wrapper[Any]) -> Iterator[object]:
    """Yield what a cache keeps, keys and results: it tells the garbage collector alone."""
    is_bounded = cache.cache_info().maxsize is not None
    for one in gc.get_referents(cache):
        if one is vars(cache) or (is_bounded and _is_of_links(one)):
            continue
        if is_bounded or type(one) is not dict:
            yield one
        else:
            yield from one.values()


def _is_of_links(one: object) -> bool:
    """Tell whether this is what a bounded cache finds its entries by, which it gives one by one too."""
    return type(one) is dict and all(type(held).__name__ == "_lru_list_elem" for held in one.values())


def _is_unchanging(waiting: list[Any]) -> bool:
    """Tell whether nothing of this can be changed, so that nobody notices when it is made again."""
    while waiting:
        one = waiting.pop()
        if type(one) in (tuple, frozenset):
            waiting += one
        elif not (issubclass(type(one), _UNCHANGING) or type(one) is object):
            return False
    return True
