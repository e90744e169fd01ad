"""Which variable it is that cannot travel, as the user's code spells it, and what to do instead."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from typing import Any, Final

from faas.bundle.by_value import ByValue
from faas.bundle.errors import Unbundleable
from faas.bundle.shared import Held
from snapshot import paths
from snapshot.paths import Trail

_VARIABLES: Final = {"global": "the global", "closure": "the closure variable", "default": "the default value"}
_REMEDIES: Final = (
    (r"onnxruntime|__torch__", "load it in setup(), so that the snapshot holds it"),
    (r"[Ll]ock|Condition|Semaphore|Event|[Qq]ueue|local", "make it in setup(), in each instance"),
    (r"open file|_io\.|TextIO|Buffered", "keep its path and open it in setup(); files travel with include="),
    (r"generator|coroutine|iterator", "make it where it is used: nothing keeps how far it has come"),
    (r"socket|SSL|[Cc]onnection|[Cc]lient|[Ss]ession|[Cc]hannel", "connect in setup(), or in after_thaw()"),
    (r"[Tt]hread|process|executor", "start it in setup()"),
)
_OTHERWISE: Final = "make it in setup(), in each instance"


def unbundleable(what: object, error: BaseException, has_file: Callable[[str], bool], held: Held) -> Unbundleable:
    """Return why `what` cannot be pickled: by which variable of it, for `error` or the reason of that variable's."""

    def attempt(part: object) -> Exception | None:
        try:
            ByValue(io.BytesIO(), has_file, held).dump(part)
        except Exception as failed:
            return failed
        return None

    def take_apart(one: object) -> object:
        reduced = ByValue(io.BytesIO(), has_file, held).reducer_override(one)
        return one.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if reduced is NotImplemented else reduced

    if isinstance(error, Unbundleable) and error.variable is not None:
        return error
    found = paths.Blame(attempt, take_apart).find(what)
    trail, reason = found or ((), error)
    variable = spelled(trail)
    if isinstance(reason, Unbundleable):
        problem = reason.problem.replace("something", variable, 1) if variable else reason.problem
        return Unbundleable(problem, reason.remedy, reason.variable or variable)
    said = str(reason) or type(reason).__name__
    remedy = next((then for pattern, then in _REMEDIES if re.search(pattern, said)), _OTHERWISE)
    return Unbundleable(f"{variable or 'something that it holds'} cannot travel: {said}", remedy, variable)


def spelled(trail: Trail) -> str | None:
    """Return the variable at the end of a trail: from the last name that stands in code."""
    text, is_global = "", False
    for step in trail:
        key = str(step.key)
        kind, _, name = key.strip("<>").partition(" ")
        if is_global:
            text, is_global = f"the global {key}", False
        elif key == "globals":
            is_global = True
        elif key.startswith("<"):
            text = f"{_VARIABLES[kind]} {name}" if kind in _VARIABLES else text
        elif text:
            text += f".{key}" if step.is_attribute else f"[{step.key!r}]"
        elif key != "function":
            text = f"the attribute {key}"
    return text or None


def pickled(what: dict[str, Any], has_file: Callable[[str], bool]) -> tuple[bytes, ByValue]:
    """Return `what` pickled by value, and the pickler, which knows what it met; its `globals` are what is rebound.

    Raises:
        Unbundleable: something of it cannot travel; names the variable.
    """
    file = io.BytesIO()
    held = Held({id(value) for values in what["globals"].values() for value in values.values()})
    pickler = ByValue(file, has_file, held)
    try:
        pickler.dump(what)
    except Exception as error:
        raise unbundleable(what, error, has_file, held) from error
    return file.getvalue(), pickler
