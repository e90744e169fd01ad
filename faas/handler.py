"""The user's object, made from a function: what is set up, thawed, called and torn down."""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from faas import modules
from faas.function import Endpoint, Function, class_of

if TYPE_CHECKING:
    from faas.known import Known

State = dict[str, Any]


class Itself:
    """Stands in a frozen state where something refers to the handler's own object, and becomes it when restored."""


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

        That is the attributes of the object, the globals of the user's modules and the attributes of their classes that
        `setup()` bound, or whose content it changed, the environment variables that it set, if any, and the object,
        where something refers to it.

        Raises:
            Unkept: it is set up, but there is more to it than such a state; says what.
        """
        from faas import library_threads, patches, process_settings  # these are nothing to an instance
        from faas.known import Known

        known, threads, settings = Known(), set(threading.enumerate()), process_settings.now()
        environ, patched = os.environ | self.function.spec.env, patches.now()
        with known.with_imports():
            self.setup()
        library_threads.end()
        if others := process_settings.changed_since(settings):
            raise Unkept(f"setup() set {', '.join(others)} for the whole process: set it in after_thaw()")
        if put := patches.made_since(patched):
            raise Unkept(f"setup() put something else in the place of {', '.join(put)}: do it in after_thaw()")
        started = [thread.name for thread in set(threading.enumerate()) - threads if _is_users(thread)]
        if started:
            raise Unkept(f"setup() started threads, which no snapshot holds: {', '.join(sorted(started))}")
        added = {name: value for name, value in os.environ.items() if environ.get(name) != value}
        return self._capture(known) | ({"environ": added} if added else {}) | self._itself()

    def restore(self, state: State) -> None:
        """Put a thawed state in place of what `setup()` would have made. `after_thaw()` is still to be run."""
        os.environ.update(state.get("environ", {}))
        if (itself := state.get("self")) is not None:
            itself.__class__, self._object = type(self._object), itself
        if self._object is not None:
            self._object.__dict__.update(state["attributes"])
        _bind(state["globals"])

    def reachable(self) -> State:
        """Return the attributes of the object and the globals of the user's modules, as they are now."""
        return {
            "attributes": dict(getattr(self._object, "__dict__", {})),
            "globals": {
                module.__name__: {
                    name: one
                    for name, one in vars(module).items()
                    if not name.startswith("__") and not isinstance(one, ModuleType)
                }
                for module in modules.of_user()
            },
        }

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

    def _itself(self) -> State:
        """Return the object as a part of its state, where something refers to it, as parts do to their owners.

        Raises:
            Unkept: its class is of a kind that `Itself` cannot stand in for.
        """
        known = (self, vars(self))
        if self._object is None or not any(
            not isinstance(one, FrameType) and all(one is not other for other in known)
            for one in gc.get_referrers(self._object)
        ):
            return {}
        try:
            Itself().__class__ = type(self._object)
        except TypeError:
            bases = ", ".join(base.__name__ for base in type(self._object).__bases__)
            raise Unkept(f"what setup() made refers to the handler itself, which is a {bases}") from None
        return {"self": self._object}

    def _capture(self, known: Known) -> State:
        from faas.contents import slots_of

        attributes, rebound = dict(getattr(self._object, "__dict__", {})), known.changed()
        state = (*attributes.values(), *(one for names in rebound.values() for one in names.values()))
        if changed := known.changed_functions(state):
            raise Unkept(f"setup() changed {', '.join(changed)}, which no snapshot has: keep it in self, or a global")
        if self._object is not None and (not hasattr(self._object, "__dict__") or slots_of(self._object)):
            raise Unkept(f"{type(self._object).__name__} keeps its state in __slots__, which no snapshot holds")
        return {"attributes": attributes, "globals": rebound}


def _bind(names: dict[str, dict[str, Any]]) -> None:
    """Bind names anew, each in its namespace: a module, `app`, or a class in one, `app:Model.Inner`."""
    for namespace, values in names.items():
        module, _, path = namespace.partition(":")
        place: Any = importlib.import_module(module)
        for step in path.split(".") if path else ():
            place = class_of(vars(place)[step])
        for name, value in values.items():
            setattr(place, name, value)


def _is_users(thread: threading.Thread) -> bool:
    """Tell whether a thread runs the user's own code: idle pools and progress bars of libraries are no loss."""
    runs = getattr(thread, "_target", None) or type(thread).run
    module = sys.modules.get(getattr(inspect.unwrap(runs), "__module__", None) or "")
    return thread.is_alive() and module is not None and modules.is_users(module)
