"""The user's object, made from a function: what is set up, thawed, called and torn down."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from faas import modules
from faas.function import Endpoint, Function

State = dict[str, Any]


class Handler:
    """One handler of one function. A decorated function is its own handler, without state."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._object: Any = function.user.__new__(function.user) if function.is_class else None

    def setup(self) -> State:
        """Make the object and run its `setup()`, in the function's own environment variables.

        Returns its state: the attributes of the object, and the globals that `setup()` bound in the user's modules.
        """
        os.environ.update(self.function.spec.env)
        before = dict(_globals_of_user())
        if self._object is not None:
            self._object.__init__()
            if hasattr(self._object, "setup"):
                self._object.setup()
        return self._capture(before)

    def restore(self, state: State) -> None:
        """Put a thawed state in place of what `setup()` would have made. `after_thaw()` is still to be run."""
        if self._object is not None:
            self._object.__dict__.update(state["attributes"])
        for module, values in state["globals"].items():
            vars(sys.modules[module]).update(values)

    def after_thaw(self) -> None:
        """Run the handler's `after_thaw()`, which makes what must be fresh in each instance."""
        if hasattr(self._object, "after_thaw"):
            self._object.after_thaw()

    def teardown(self) -> None:
        """Run the handler's `teardown()`, if it has one."""
        if hasattr(self._object, "teardown"):
            self._object.teardown()

    def method(self, endpoint: Endpoint) -> Callable[..., Any]:
        """Return what answers at an endpoint."""
        found: Callable[..., Any] = (
            self.function.user if self._object is None else getattr(self._object, endpoint.method)
        )
        return found

    def _capture(self, before: Mapping[tuple[str, str], Any]) -> State:
        """Return the object's attributes, and the globals of the user's modules that were rebound since `before`."""
        rebound: dict[str, dict[str, Any]] = {}
        for (module, name), value in _globals_of_user():
            if before.get((module, name), _MISSING) is not value and not isinstance(value, ModuleType):
                rebound.setdefault(module, {})[name] = value
        attributes = dict(self._object.__dict__) if self._object is not None else {}
        return {"attributes": attributes, "globals": rebound}


_MISSING = object()


def _globals_of_user() -> Iterator[tuple[tuple[str, str], Any]]:
    for module in modules.of_user():
        for name, value in list(vars(module).items()):
            if not name.startswith("__"):
                yield (module.__name__, name), value
