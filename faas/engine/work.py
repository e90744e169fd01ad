"""What an engine runs: one endpoint of a handler, and how a batch of calls becomes its arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from faas.hints import Kind
from faas.messages import Call


@dataclass(frozen=True)
class Work:
    """One endpoint of a handler that has been set up.

    `call` is the bound callable. `context` names the parameter that receives the `Context`, a list of them where
    `batched`. `grad` leaves torch's gradients on. `collate` maps a body parameter to what makes its argument of the
    batch's items; without an entry it is the list itself.
    """

    call: Callable[..., Any]
    kind: Kind
    batched: bool = False
    context: str | None = None
    grad: bool = False
    collate: Mapping[str, Callable[[list[Any]], Any]] = field(default_factory=dict)

    @cached_property
    def title(self) -> str:
        """The handler's name, as messages write it."""
        return getattr(self.call, "__qualname__", repr(self.call))

    @cached_property
    def on_loop(self) -> bool:
        """Whether it runs on the event loop, not on the model thread."""
        return self.kind in ("async", "async_generator")

    @cached_property
    def streams(self) -> bool:
        """Whether an answer is a stream of events."""
        return self.kind in ("generator", "async_generator")

    def arguments(self, calls: Sequence[Call]) -> dict[str, Any]:
        """Return the keyword arguments for `calls`; exactly one call where the work is not batched."""
        if not self.batched:
            kwargs = calls[0].kwargs
            return kwargs if self.context is None else {**kwargs, self.context: calls[0].context}
        arguments: dict[str, Any] = {name: [call.kwargs[name] for call in calls] for name in calls[0].kwargs}
        for name, collate in self.collate.items():
            if name in arguments:
                arguments[name] = collate(arguments[name])
        if self.context is not None:
            arguments[self.context] = [call.context for call in calls]
        return arguments

    def alike(self, calls: list[Call]) -> list[list[Call]]:
        """Split a batch into those that can be collated: arrays of one shape and element type for each parameter."""
        if not self.collate or len(calls) == 1:
            return [calls]
        groups: dict[Hashable, list[Call]] = {}
        for call in calls:
            groups.setdefault(tuple(_form(call.kwargs.get(name)) for name in self.collate), []).append(call)
        return list(groups.values())


def _form(value: Any) -> Hashable:
    shape = getattr(value, "shape", None)
    return None if shape is None else (tuple(shape), str(getattr(value, "dtype", "")))
