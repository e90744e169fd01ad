"""What an engine runs: one endpoint of a handler, and how a batch of calls becomes its arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, TypeVar

import msgspec

from faas.engine.inputs import copies
from faas.engine.outcomes import slots
from faas.hints import Kind
from faas.messages import Call

_T = TypeVar("_T")


class Form(Protocol):
    """How the items of a batch become the handler's arguments, and what it returns their answers.

    `num_items` is what the handler is called with: what the calls count for, and copies of the last to fill up.
    `joins_all` says that items are joined whatever their keys. `copied` names the parameters of which the handler gets
    copies, and not what the items hold.
    """

    joins_all: bool
    copied: Collection[str]

    def count(self, kwargs: Mapping[str, Any]) -> int:
        """Return what an item counts for in a batch.

        Raises:
            BadInput: it cannot be part of one; says why.
        """
        ...

    def key(self, kwargs: Mapping[str, Any]) -> Hashable:
        """Return what items must have in common to be joined."""
        ...

    def arguments(self, calls: Sequence[Call], num_items: int) -> dict[str, Any]:
        """Return the handler's arguments, without contexts."""
        ...

    def spread(self, values: Sequence[Any], calls: Sequence[Call], num_items: int) -> list[Any]:
        """Return one of `values`, which are the calls', for each item."""
        ...

    def values(self, returned: Any, calls: Sequence[Call], num_items: int, title: str) -> list[Any]:
        """Return the calls' answers.

        Raises:
            HandlerError: the handler returned something of another kind or length.
        """
        ...


class Stacked:
    """The form of items that are elements of the handler's lists, and of its arrays' first axis.

    `collate` maps a body parameter to what makes its argument of the batch's items; without an entry it is the list
    itself. What an item left out whose default is None is None for all of its batch.
    """

    def __init__(self, collate: Mapping[str, Callable[[list[Any]], Any]] | None = None) -> None:
        self._collate = collate or {}
        self.joins_all = not self._collate
        self.copied: Collection[str] = self._collate.keys()

    def count(self, kwargs: Mapping[str, Any]) -> int:
        """See `Form`."""
        return 1

    def key(self, kwargs: Mapping[str, Any]) -> Hashable:
        """See `Form`. Arrays of one shape and element type for each parameter that is collated."""
        return tuple(form_of_array(kwargs.get(name)) for name in self._collate)

    def arguments(self, calls: Sequence[Call], num_items: int) -> dict[str, Any]:
        """See `Form`."""
        arguments = columns(calls, num_items, self.copied)
        for name, collate in self._collate.items():
            if name in arguments:
                arguments[name] = None if arguments[name][0] is None else collate(arguments[name])
        return arguments

    def spread(self, values: Sequence[Any], calls: Sequence[Call], num_items: int) -> list[Any]:
        """See `Form`."""
        return filled_up(values, num_items)

    def values(self, returned: Any, calls: Sequence[Call], num_items: int, title: str) -> list[Any]:
        """See `Form`."""
        return slots(returned, num_items, title)[: len(calls)]


class Work(msgspec.Struct, frozen=True, dict=True):
    """One endpoint of a handler that has been set up.

    `call` is the bound callable. `context` names the parameter that receives the `Context`, a list of them where
    `batched`. `grad` leaves torch's gradients on. `form` is that of the items of a batch.
    """

    call: Callable[..., Any]
    kind: Kind
    batched: bool = False
    context: str | None = None
    grad: bool = False
    form: Form = msgspec.field(default_factory=Stacked)

    @cached_property
    def title(self) -> str:
        """The handler's name, as messages write it."""
        name: str | None = getattr(self.call, "__qualname__", None)
        return repr(self.call) if name is None else name

    @cached_property
    def on_loop(self) -> bool:
        """Whether it runs on the event loop, not on the model thread."""
        return self.kind in ("async", "async_generator")

    @cached_property
    def streams(self) -> bool:
        """Whether an answer is a stream of events."""
        return self.kind in ("generator", "async_generator")

    def arguments(self, calls: Sequence[Call], num_items: int = 1) -> dict[str, Any]:
        """Return the keyword arguments for `calls` filled up to `num_items`; one call where the work is not batched."""
        if not self.batched:
            kwargs = calls[0].kwargs
            return kwargs if self.context is None else {**kwargs, self.context: calls[0].context}
        arguments = self.form.arguments(calls, num_items)
        if self.context is not None:
            arguments[self.context] = self.form.spread([call.context for call in calls], calls, num_items)
        return arguments

    def alike(self, calls: list[Call]) -> list[list[Call]]:
        """Split a batch into those that can be joined."""
        if not self.batched or self.form.joins_all or len(calls) == 1:
            return [calls]
        groups: dict[Hashable, list[Call]] = {}
        for call in calls:
            groups.setdefault(self.form.key(call.kwargs), []).append(call)
        return list(groups.values())

    def values(self, returned: Any, calls: Sequence[Call], num_items: int) -> list[Any]:
        """Return the answers of `calls` out of what the handler returned for `num_items`.

        Raises:
            HandlerError: it is of another kind or length.
        """
        return self.form.values(returned, calls, num_items, self.title) if self.batched else [returned]


def filled_up(values: Sequence[_T], num: int) -> list[_T]:
    """Return `values` with copies of the last one, up to `num`."""
    return [*values, *[values[-1]] * (num - len(values))]


def columns(calls: Sequence[Call], num_items: int, copied: Collection[str]) -> dict[str, Any]:
    """Return `num_items` values of each parameter: those of the calls, and copies of the last one.

    Of the parameters that are `copied` anyway the copies are the same object.
    """
    found = {name: [call.kwargs[name] for call in calls] for name in calls[0].kwargs}
    num_more = num_items - len(calls)
    if num_more > 0:
        for name, values in found.items():
            last = values[-1]
            values += [last] * num_more if name in copied else copies(last, num_more)
    return found


def form_of_array(value: Any, first_axis: int = 0) -> Hashable:
    """Return the element type of an array and its shape from `first_axis` on; None for what is no array."""
    shape = getattr(value, "shape", None)
    return None if shape is None else (tuple(shape[first_axis:]), str(getattr(value, "dtype", "")))
