"""Functions and classes of the user's that stand in installed modules, in place of what these came with."""

from __future__ import annotations

import gc
import sys
from types import FunctionType, ModuleType

from faas import modules

Place = tuple[str, str]
"""A module or class, and the name in it."""


def now() -> dict[Place, object]:
    """Return what stands where now."""
    homes = {id(vars(module)) for module in modules.of_user()}
    own: list[object] = [one for one in gc.get_objects() if type(one) is FunctionType and id(one.__globals__) in homes]
    own += [one for module in modules.of_user() for one in list(vars(module).values()) if _is_of(module, one)]
    mine = {id(one) for one in own}
    found: dict[Place, object] = {}
    for names in gc.get_referrers(*own) if own else ():
        if type(names) is dict and (owner := _owner(names)) is not None:
            found.update({(owner, name): one for name, one in list(names.items()) if id(one) in mine})
    return found


def made_since(before: dict[Place, object]) -> list[str]:
    """Return what has been put in another's place since `before`, in words."""
    return sorted(f"{owner}.{name}" for (owner, name), one in now().items() if before.get((owner, name)) is not one)


def _owner(names: dict[str, object]) -> str | None:
    """Return the installed module, or class of one, whose names these are; None for all other dictionaries."""
    named, home = names.get("__name__"), names.get("__module__")
    if isinstance(named, str) and (module := sys.modules.get(named)) is not None and vars(module) is names:
        return None if modules.is_users(module) or named == "__main__" else named
    if not isinstance(home, str) or modules.is_users_file(getattr(sys.modules.get(home), "__file__", None)):
        return None
    kinds = (one for one in gc.get_referrers(names) if issubclass(type(one), type) and one.__module__ == home)
    return next((f"{home}.{kind.__qualname__}" for kind in kinds), None)


def _is_of(module: ModuleType, one: object) -> bool:
    """Tell whether this is a class of the module."""
    return issubclass(type(one), type) and getattr(one, "__module__", None) == module.__name__
