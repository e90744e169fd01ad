"""Items that carry several rows each: joined on their first axis, and the answers given back by rows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import chain
from typing import Any

from faas import arrays, messages
from faas.engine.inputs import copies
from faas.engine.outcomes import slots
from faas.engine.work import columns, filled_up, form_of_array
from faas.errors import BadInput
from faas.messages import Call


class Rows:
    """The form of items with rows: each body parameter is a list or an array that holds one element for each.

    The handler is called with all rows of the batch, and gives one value for each. An exception for one row fails the
    item. `libraries` names the parameters that are arrays, with their library. Where an item left one out whose default
    is None, each of its rows has None; where that is an array, it is None for all of the batch.
    """

    def __init__(self, libraries: Mapping[str, str]) -> None:
        self._libraries = libraries
        self.joins_all = not libraries
        self.copied: Collection[str] = libraries.keys()

    def count(self, kwargs: Mapping[str, Any]) -> int:
        """See `Form`. As many as it carries rows; at least one, and the same number in each parameter."""
        counts = {name: _length(name, value) for name, value in kwargs.items() if value is not None}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name} has {num}" for name, num in counts.items())
            raise BadInput(f"every parameter holds one element for each row; {listed}")
        num = next(iter(counts.values()), 0)
        if num == 0:
            raise BadInput("an item holds at least one row; this one has none")
        return num

    def key(self, kwargs: Mapping[str, Any]) -> Hashable:
        """See `Form`."""
        return tuple(form_of_array(kwargs[name], first_axis=1) for name in self._libraries if name in kwargs)

    def arguments(self, calls: Sequence[Call], num_items: int) -> dict[str, Any]:
        """See `Form`."""
        num_extra = num_items - messages.num_items(calls)
        arguments = columns(calls, len(calls), self.copied)
        for name, items in arguments.items():
            library = self._libraries.get(name)
            if library is None:
                each = [[None] * call.num_rows if one is None else one for call, one in zip(calls, items, strict=True)]
                arguments[name] = [*chain.from_iterable(each), *copies(each[-1][-1], num_extra)]
            else:
                arguments[name] = None if items[0] is None else arrays.concatenate(library, items, num_extra)
        return arguments

    def spread(self, values: Sequence[Any], calls: Sequence[Call], num_items: int) -> list[Any]:
        """See `Form`."""
        each = [value for value, call in zip(values, calls, strict=True) for _ in range(call.num_rows)]
        return filled_up(each, num_items)

    def values(self, returned: Any, calls: Sequence[Call], num_items: int, title: str) -> list[Any]:
        """See `Form`."""
        listed = slots(returned, num_items, title)
        whole = returned if hasattr(returned, "shape") else listed
        answers, at = [], 0
        for call in calls:
            upto = at + call.num_rows
            failed = next((value for value in listed[at:upto] if isinstance(value, BaseException)), None)
            answers.append(failed if failed is not None else whole[at:upto])
            at = upto
        return answers


def joined(values: Sequence[Any]) -> Any:
    """Return the answers to the parts of an item as the answer to the whole of it."""
    first = values[0]
    library = arrays.library_of(type(first))
    if library is not None:
        return arrays.concatenate(library, list(values))
    return list(chain.from_iterable(values))


def parts(kwargs: Mapping[str, Any], num_rows: int, most: int) -> list[dict[str, Any]]:
    """Split an item into those of at most `most` rows each, in order."""
    return [
        {name: None if value is None else value[at : at + most] for name, value in kwargs.items()}
        for at in range(0, num_rows, most)
    ]


def _length(name: str, value: Any) -> int:
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__") or getattr(value, "shape", None) == ():
        raise BadInput(f"{name} holds no rows: send a list with one element for each")
    return len(value)
