"""Functions and classes of the user's that stand in installed modules, in place of what these came with."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

from faas import modules

Place = tuple[str, str]
"""A module or class, and the name in it."""

_NAMES_OF_CLASS: Final = type.__dict__["__dict__"].__get__
"""A class's names, whatever its metaclass makes of them."""


def now() -> dict[Place, object]:
    """Return what stands where now."""
    users = modules.of_user()
    homes = {id(vars(module)) for module in users}
    own = {id(one) for module in users for one in list(vars(module).values()) if _is_of(module, one)}
    found: dict[Place, object] = {}
    for owner, names in _places() if homes else ():
        for name, one in list(names.items()):
            if (type(one) is FunctionType and id(one.__globals__) in homes) or id(one) in own:
                found[owner, name] = one
    return found


def made_since(before: dict[Place, object]) -> list[str]:
    """Return what has been put in another's place since `before`, in words."""
    return sorted(f"{owner}.{name}" for (owner, name), one in now().items() if before.get((owner, name)) is not one)


def _places() -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the installed modules, and the classes of such, with their names."""
    installed = {"builtins"}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name != "__main__" and not modules.is_users(module):
            installed.add(name)
            yield name, object.__getattribute__(module, "__dict__")  # a lazy one is not loaded for that
    for kind in _classes():
        names = _NAMES_OF_CLASS(kind)
        if (home := names.get("__module__")) in installed:
            yield f"{home}.{kind.__qualname__}", names


def _classes() -> list[Any]:
    """Return all classes that there are."""
    found = {id(object): object}  # by which they are, as metaclasses may have them equal
    waiting: list[Any] = [object]
    while waiting:
        below = {id(one): one for one in type.__subclasses__(waiting.pop()) if id(one) not in found}
        found |= below
        waiting += below.values()
    return [*found.values()]


def _is_of(module: ModuleType, one: object) -> bool:
    """Tell whether this is a class of the module."""
    return issubclass(type(one), type) and getattr(one, "__module__", None) == module.__name__
