"""How a handler's torch modules are called, noted while they are. Imports torch."""

import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as hooks

from snapshot.errors import NotExportable
from snapshot.export.module import Signature
from snapshot.export.structure import Structure, is_numbers, paths, take_apart

_CONSTANTS = (type(None), bool, int, float, str)


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a module: what it was given, by position and by name, and what it returned."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    answer: Any


@dataclass(eq=False)
class Recording:
    """The calls of each module that was called from outside of any other, in the order of the first ones."""

    calls: dict[torch.nn.Module, list[Call]] = field(default_factory=dict)


@contextmanager
def recording() -> Iterator[Recording]:
    """Note every call of a module, in any thread, while it lasts; calls that a module makes itself are its own."""
    found = Recording()
    inside = threading.local()

    def before(module: torch.nn.Module, args: Any) -> None:
        inside.depth = getattr(inside, "depth", 0) + 1

    def after(module: torch.nn.Module, args: Any, *outcome: Any) -> None:
        inside.depth -= 1
        kwargs, answer = outcome if len(outcome) == 2 else ({}, None)  # a call that raised tells of no keywords
        if inside.depth == 0 and answer is not None:
            found.calls.setdefault(module, []).append(Call(args, dict(kwargs), answer))

    handles = [
        hooks.register_module_forward_pre_hook(before),
        hooks.register_module_forward_hook(after, with_kwargs=True, always_call=True),
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True, eq=False)
class Example:
    """One call, flat: the tensors that were given, by their paths, and those that came back, in order."""

    given: dict[str, torch.Tensor]
    answers: list[torch.Tensor]


def examples_of(module: torch.nn.Module, calls: list[Call], path: str) -> tuple[Signature, list[Example]]:
    """Return how `module` is called, which must be in one way, and the calls themselves.

    Raises NotExportable: it is called in several ways, or with or for something that is neither array nor constant.
    """
    signature: Signature | None = None
    examples = []
    for call in calls:
        found, example = _example(module, call, path)
        if signature is not None and (found.given, found.answer) != (signature.given, signature.answer):
            raise NotExportable(path, f"it is called in two ways: {_ways(signature)} and {_ways(found)}")
        signature = found
        examples.append(example)
    assert signature is not None
    return signature, examples


def _example(module: torch.nn.Module, call: Call, path: str) -> tuple[Signature, Example]:
    unbound = _unbound(module, path)
    bound = unbound.bind(call.args, call.kwargs)
    given: dict[str, Structure] = {}
    tensors: dict[str, torch.Tensor] = {}
    for name, value in bound.items():
        arrays, given[name] = take_apart(value, _is_array)
        for place, part in paths(given[name], name):
            if part[0] == "left out":
                raise NotExportable(path, f"it is called with {place}, a {part[1]}; give it arrays and plain constants")
            if part[0] == "array":
                tensors[place] = _as_tensor(arrays[part[1]])
    answers, answer = take_apart(call.answer, torch.is_tensor)
    if not answers:
        raise NotExportable(path, "it returns no tensor")
    if not tensors:
        raise NotExportable(path, "it is called without any array")
    signature = Signature(path, unbound.parameters, unbound.variadic, given, answer, unbound.defaults)
    return signature, Example(tensors, [one.detach().clone() for one in answers])


def _unbound(module: torch.nn.Module, path: str) -> Signature:
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        raise NotExportable(path, f"{type(module).__name__}.forward does not tell its parameters") from None
    by_place = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    defaults = {p.name: p.default for p in parameters if isinstance(p.default, _CONSTANTS)}
    return Signature(path, tuple(by_place), variadic, {}, ("constant", None), defaults)


def _is_array(value: Any) -> bool:
    return torch.is_tensor(value) or isinstance(value, np.ndarray | np.generic) or is_numbers(value)


def _as_tensor(value: Any) -> torch.Tensor:
    return value.detach().clone() if torch.is_tensor(value) else torch.from_numpy(np.array(value))


def _ways(signature: Signature) -> str:
    return f"({', '.join(signature.given)})"
