"""The globals of the user's modules that are no longer as importing the modules makes them: they travel by value.

So does what was put into an object that a module holds. Where that cannot travel the module's file makes the object
anew, as it does wherever the module is imported, and the user is told.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from faas.bundle import blame
from faas.bundle.errors import Unbundleable
from faas.bundle.reached import Module
from faas.bundle.summaries import kind_of, summary
from faas.bundle.verifying import CleanInterpreter, Task, globals_of

Globals = dict[str, dict[str, Any]]


def rebound(local: Iterable[Module], has_file: Callable[[str], bool]) -> tuple[Globals, list[str]]:
    """Return by module the globals that travel, and in sentences those that have changed and cannot.

    Raises:
        Unbundleable: the modules cannot be imported again.
    """
    loaded = [module.name for module in local if isinstance(sys.modules.get(module.name), types.ModuleType)]
    found: Globals = {}
    notes: list[str] = []
    imported = _as_imported(loaded)
    for name in loaded:
        for key, value in globals_of(sys.modules[name]).items():
            kind, content = imported[name].get(key, ("", ""))
            if kind_of(value) != kind:
                found.setdefault(name, {})[key] = value
            elif summary(value) != content:
                why = _held_back(name, key, value, has_file)
                if why is None:
                    found.setdefault(name, {})[key] = value
                else:
                    notes.append(f"{name}.{key} has changed since {name} was imported, and is made anew there: {why}")
    return found, notes


def _as_imported(names: list[str]) -> dict[str, dict[str, tuple[str, str]]]:
    if not names:
        return {}
    here = os.getcwd()  # what "" in the path means to this process: the other one is in another folder
    with CleanInterpreter() as interpreter:
        answer = interpreter.ask(Task(names=tuple(names), search=tuple(place or here for place in sys.path)))
    if answer.failure is not None:
        what = f"the modules cannot be imported again: {answer.failure.message}"
        raise Unbundleable(what, answer.failure.remedy)
    return answer.globals


def _held_back(module: str, name: str, value: Any, has_file: Callable[[str], bool]) -> str | None:
    """Return why a value cannot travel; None where it can."""
    try:
        blame.pickled({"function": None, "globals": {module: {name: value}}}, has_file)
    except Unbundleable as error:
        return error.problem
    return None
