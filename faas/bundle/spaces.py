"""The modules of several bundles in one process, each importing its own under the names that others have too.

An instance has one bundle, and none of this happens. When a second one comes whose modules have names that are taken,
the modules that were there are set aside, and come back when code of theirs imports something.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any


class Space:
    """The modules of one bundle, whose top-level names are `tops`, or of what is in none (`folder` None)."""

    def __init__(self, folder: Path | None, tops: frozenset[str]) -> None:
        self.folder = folder
        self.tops = tops
        self.aside: dict[str, ModuleType] = {}

    def holds(self, file: object) -> bool:
        """Tell whether a module of this `__file__` is one of its."""
        if self.folder is None:
            return True
        return isinstance(file, str) and file.startswith(f"{self.folder}/")


_OUTSIDE = Space(None, frozenset())
_spaces: list[Space] = []
_lock = threading.RLock()


def enter(folder: Path, tops: frozenset[str]) -> None:
    """Have imports of `tops` find the modules in `folder`, which joins the module search path."""
    with _lock:
        space = next((one for one in _spaces if one.folder == folder), None) or Space(folder, tops)
        if space not in _spaces:
            _spaces.insert(0, space)
        if _set_aside(space) and builtins.__import__ is not _import:
            _install()
        _bring_back(space)


def _of(file: object) -> Space:
    return next((space for space in _spaces if space.holds(file)), _OUTSIDE)


def _set_aside(space: Space) -> bool:
    """Take from `sys.modules` what others have under the names of a space. Returns whether there was any."""
    if sys.modules.keys().isdisjoint(space.tops):  # so it is in an instance, which does not look at all its modules
        return False
    others = [
        (name, module)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in space.tops and not space.holds(getattr(module, "__file__", None) or _path(module))
    ]
    for name, module in others:
        _of(getattr(module, "__file__", None) or _path(module)).aside[name] = sys.modules.pop(name)
    return bool(others)


def _path(module: ModuleType) -> str | None:
    """Return where a package without a file of its own lies."""
    path = getattr(module, "__path__", ())
    places = list(getattr(path, "_path", path))  # that of a namespace package asks for its parent, set aside or not
    return f"{places[0]}/" if places else None


def _bring_back(space: Space) -> None:
    sys.modules.update(space.aside)
    space.aside.clear()
    place = str(space.folder)
    if space.folder is not None and sys.path[:1] != [place]:
        sys.path[:] = [place, *(one for one in sys.path if one != place)]


def _install() -> None:
    global _real_import
    _real_import = builtins.__import__
    builtins.__import__ = _import


_real_import = builtins.__import__


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Any = (),
    level: int = 0,
) -> Any:
    """Import for the bundle that the importing code is of."""
    space = _of((globals or {}).get("__file__"))
    with _lock:
        if space.folder is not None:
            _set_aside(space)
            _bring_back(space)
        elif name.partition(".")[0] in {one.partition(".")[0] for one in _OUTSIDE.aside}:
            return _import_outside(name, globals, locals, fromlist, level)
        return _real_import(name, globals, locals, fromlist, level)


def _import_outside(name: str, *rest: Any) -> Any:
    """Import for code that is in no bundle what a bundle has taken the name of, and leave things as they were."""
    taken = {one: sys.modules.get(one) for one in _OUTSIDE.aside}
    sys.modules.update(_OUTSIDE.aside)
    try:
        return _real_import(name, *rest)
    finally:
        sys.modules.update({one: module for one, module in taken.items() if module is not None})
