"""Something to be done as soon as a module is imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Then = Callable[[Any], None]


def once_imported(name: str, then: Then) -> None:
    """Call `then(module)` once the module of that name, which is not imported yet, has been; on the thread that did."""
    sys.meta_path.insert(0, _Finder(name, then))


class _Finder:
    """Finds the one module as others do, and is gone then."""

    def __init__(self, name: str, then: Then) -> None:
        self._name = name
        self._then = then

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Give the module as it would be found without this, and call back once it is executed."""
        if name != self._name or self not in sys.meta_path:
            return None
        import importlib.util  # nothing to those whose handlers never import it

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_call(module: ModuleType) -> None:
                execute(module)
                self._then(module)

            spec.loader.exec_module = execute_and_call  # type: ignore[method-assign]
        return spec
