"""Objects that a module holds and that code by value holds, too: they are referred to, so that they stay one.

`from state import CACHE` gives a script the very dictionary that functions of `state` fill. A copy of it would be
filled by nobody. Of what libraries hold, such as `os.environ` or a registry of theirs, a copy would be of no use
elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from faas import modules
from faas.bundle.rebuilt import MAIN
from faas.bundle.summaries import is_plain

BY_VALUE: Final = (MAIN, "__mp_main__")
"""The modules whose code travels by value though they have a file: it is not to be run again."""
_CONTAINERS: Final = (dict, list, set)
_STREAMS: Final = ("stdin", "stdout", "stderr")
_BY_NAME: Final = (type(None), FunctionType, BuiltinFunctionType, ModuleType)
_NEVER: Final = (str, bytes, int, float, bool, complex, tuple, frozenset, *_BY_NAME)


@dataclass(frozen=True, eq=False)
class Reference:
    """Stands for what a module has under a name."""

    module: str
    name: str


class Held:
    """Where objects are held: plain containers by the user's modules, anything by the library that made its class.

    `rebound` has the ids of what modules hold that is not as importing them makes it: that travels by value.
    """

    def __init__(self, rebound: Collection[int] = ()) -> None:
        self._rebound = rebound
        self._of_user: dict[int, Reference] | None = None
        self._of_libraries: dict[str, dict[int, Reference]] = {}
        self._streams = {id(getattr(sys, name)): Reference("sys", name) for name in _STREAMS}

    def place(self, one: Any) -> Reference | None:
        """Return where an object is held; None where it is nobody's but the script's."""
        kind = type(one)
        if kind in _NEVER or isinstance(one, type) or id(one) in self._rebound:
            return None
        if kind in _CONTAINERS:
            found = self._users().get(id(one))
            return found if found is not None and is_plain(one) else None
        return self._streams.get(id(one)) or self._in(str(kind.__module__)).get(id(one))

    def _users(self) -> dict[int, Reference]:
        if self._of_user is None:
            self._of_user = {}
            for module in modules.of_user():
                if has_file(module.__name__):
                    self._of_user |= _held_by(module)
        return self._of_user

    def _in(self, name: str) -> dict[int, Reference]:
        if name not in self._of_libraries:
            is_library = has_file(name) and not modules.is_users(sys.modules[name])
            self._of_libraries[name] = _held_by(sys.modules[name]) if is_library else {}
        return self._of_libraries[name]


def has_file(name: str) -> bool:
    """Tell whether a module can be imported again by its name: from a file, or of Python's own."""
    module = sys.modules.get(name)
    return name not in BY_VALUE and isinstance(module, ModuleType) and getattr(module, "__spec__", None) is not None


def _held_by(module: ModuleType) -> dict[int, Reference]:
    names = (
        name for name in vars(module) if not name.startswith("__") and name != "_"
    )  # `_`: what a shell showed last
    return {id(vars(module)[name]): Reference(module.__name__, name) for name in list(names)}
