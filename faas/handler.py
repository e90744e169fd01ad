"""The user's object, made from a function: what is set up, thawed, called and torn down."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from faas import modules
from faas.function import Endpoint, Function

State = dict[str, Any]
Globals = Mapping[tuple[str, str], Any]
Content = list[tuple[int, int]] | None


class Unkept(Exception):
    """A handler is set up, but a snapshot would not hold all that its `setup()` did; says what."""


class Handler:
    """One handler of one function. A decorated function is its own handler, without state."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._object: Any = function.user.__new__(function.user) if function.is_class else None

    def setup(self) -> None:
        """Make the object and run its `setup()`, in the function's own environment variables."""
        os.environ.update(self.function.spec.env)
        if self._object is not None:
            self._object.__init__()
            self._run("setup")

    def setup_to_keep(self) -> State:
        """Do `setup()`, and return the state that it made.

        That is the attributes of the object, and the globals of the user's modules that `setup()` bound, or whose
        content it changed.

        Raises:
            Unkept: it is set up, but there is more to it than such a state; says what.
        """
        before, threads = dict(_globals_of_user()), set(threading.enumerate())
        contents = {key: _content(value) for key, value in before.items()}
        self.setup()
        started = [thread.name for thread in set(threading.enumerate()) - threads if _is_users(thread)]
        if started:
            raise Unkept(f"setup() started threads, which no snapshot holds: {', '.join(sorted(started))}")
        return self._capture(before, contents)

    def restore(self, state: State) -> None:
        """Put a thawed state in place of what `setup()` would have made. `after_thaw()` is still to be run."""
        if self._object is not None:
            self._object.__dict__.update(state["attributes"])
        for module, values in state["globals"].items():
            vars(sys.modules[module]).update(values)

    def after_thaw(self) -> None:
        """Run the handler's `after_thaw()`, which makes what must be fresh in each instance."""
        self._run("after_thaw")

    def teardown(self) -> None:
        """Run the handler's `teardown()`, if it has one."""
        self._run("teardown")

    def method(self, endpoint: Endpoint) -> Callable[..., Any]:
        """Return what answers at an endpoint."""
        found: Callable[..., Any] = (
            self.function.user if self._object is None else getattr(self._object, endpoint.method)
        )
        return found

    def _run(self, hook: str) -> None:
        """Run a hook that the class has; a `__getattr__` of its is not asked."""
        if hasattr(type(self._object), hook):
            getattr(self._object, hook)()

    def _capture(self, before: Globals, contents: Mapping[tuple[str, str], Content]) -> State:
        rebound: dict[str, dict[str, Any]] = {}
        for key, value in _globals_of_user():
            changed = before.get(key, _MISSING) is not value or contents.get(key) != _content(value)
            if changed and not isinstance(value, ModuleType):
                rebound.setdefault(key[0], {})[key[1]] = value
        if self._object is None:
            return {"attributes": {}, "globals": rebound}
        if not hasattr(self._object, "__dict__"):
            raise Unkept(f"{type(self._object).__name__} keeps its state in __slots__, which no snapshot holds")
        return {"attributes": dict(self._object.__dict__), "globals": rebound}


def _is_users(thread: threading.Thread) -> bool:
    """Tell whether a thread runs the user's own code: idle pools and progress bars of libraries are no loss."""
    runs = getattr(thread, "_target", None) or type(thread).run
    module = sys.modules.get(getattr(inspect.unwrap(runs), "__module__", None) or "")
    return thread.is_alive() and module is not None and modules.is_users(module)


def _content(value: object) -> Content:
    """Return what tells whether a container was changed: its elements, by identity; None for what is none."""
    if type(value) is dict:
        return [(id(key), id(held)) for key, held in value.items()]
    if type(value) in (list, set):
        return [(id(held), 0) for held in value]  # type: ignore[attr-defined]
    return None


_MISSING = object()


def _globals_of_user() -> Iterator[tuple[tuple[str, str], Any]]:
    for module in modules.of_user():
        for name, value in list(vars(module).items()):
            if not name.startswith("__"):
                yield (module.__name__, name), value
