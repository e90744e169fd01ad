"""Torch modules that were left in training mode, where dropout and batch statistics make answers vary.

What is looked at is touched, and what an instance touches of what it shares with its zygote is copied: so the search
goes from the handler to what it holds, a few steps deep, and gives up after a few hundred objects.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

MAX_STEPS: Final = 3
MAX_OBJECTS: Final = 300
MAX_ITEMS: Final = 16
"""Of one container; models are few, and what there is a lot of is data."""

_OPAQUE: Final = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


def in_training(method: Callable[..., Any]) -> list[str]:
    """Return where modules in training mode are held by a handler, or, of a function, by its module's globals."""
    torch_nn = getattr(sys.modules.get("torch"), "nn", None)
    if torch_nn is None:
        return []
    owner = getattr(method, "__self__", None)
    held = vars(owner).items() if owner is not None else method.__globals__.items()
    prefix = "self." if owner is not None else ""
    return list(_search([(f"{prefix}{name}", value) for name, value in held], torch_nn.Module))


def _search(begun: list[tuple[str, Any]], module: type) -> Iterator[str]:
    """Yield the places of modules in training mode, the nearest first; each object is looked at once."""
    waiting = deque((place, value, MAX_STEPS) for place, value in begun)
    seen: set[int] = set()
    while waiting and len(seen) < MAX_OBJECTS:
        place, value, steps = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, module):
            if value.training:  # type: ignore[attr-defined]
                yield place
        elif steps > 1:
            waiting.extend((place + step, inner, steps - 1) for step, inner in _inside(value))


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", inner) for key, inner in islice(value.items(), MAX_ITEMS) if type(key) in (str, int))
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", inner) for index, inner in enumerate(value[:MAX_ITEMS]))
    elif not isinstance(value, _OPAQUE):
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            yield from ((f".{name}", inner) for name, inner in islice(attributes.items(), 2 * MAX_ITEMS))
