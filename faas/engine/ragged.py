"""Items of unequal length: padded into one batch, and their answers given back at their own length."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from faas import arrays
from faas.engine.buckets import bucket_of
from faas.engine.outcomes import Raised, slots
from faas.engine.owned import owned_array
from faas.engine.work import columns, filled_up, form_of_array
from faas.errors import BadInput, HandlerError
from faas.messages import Call
from faas.spec import Pad


class Ragged:
    """The form of items that are padded.

    `libraries` names the parameters that are padded with their library, None for lists, and those that are told of the
    padding (`Pad.mask`, `Pad.lengths`) too. With `buckets` items are padded up to the next of them, else to the
    longest.
    """

    def __init__(self, pad: Pad, libraries: Mapping[str, str | None], buckets: Sequence[int] = ()) -> None:
        self._pad = pad
        self._buckets = buckets
        self._libraries = libraries
        self._padded = [name for name in libraries if name not in pad.names]
        self.copied: Collection[str] = () if pad.collate else [name for name in self._padded if libraries[name]]
        self.joins_all = not any(libraries[name] for name in self._padded)

    def count(self, kwargs: Mapping[str, Any]) -> int:
        """See `Form`."""
        self.length(kwargs)
        return 1

    def length(self, kwargs: Mapping[str, Any]) -> int:
        """Return the length of an item.

        Raises:
            BadInput: its padded parameters differ in length, or it is longer than the last bucket.
        """
        lengths = {name: _length(name, kwargs[name]) for name in self._padded if kwargs.get(name) is not None}
        if len(set(lengths.values())) > 1 and self._pad.collate is None:
            listed = ", ".join(f"{name} has {num}" for name, num in lengths.items())
            raise BadInput(f"the parts of an item are of one length; {listed}")
        return max(lengths.values(), default=0)

    def bucket(self, kwargs: Mapping[str, Any]) -> int:
        """Return the bucket of an item.

        Raises:
            BadInput: it is longer than the last one; or as `length` does.
        """
        length = self.length(kwargs)
        found = bucket_of(length, self._buckets)
        if found is None:
            raise BadInput(f"the item has {length} elements; at most {self._buckets[-1]} can be taken")
        return found

    def key(self, kwargs: Mapping[str, Any]) -> Hashable:
        """See `Form`."""
        return tuple(form_of_array(kwargs[name], first_axis=1) for name in self._padded if name in kwargs)

    def arguments(self, calls: Sequence[Call], num_items: int) -> dict[str, Any]:
        """See `Form`."""
        lengths = filled_up([self.length(call.kwargs) for call in calls], num_items)
        upto = self._upto(lengths)
        arguments = columns(calls, num_items, self.copied)
        if self._pad.collate is not None:
            return dict(self._pad.collate({name: list(map(_own, held)) for name, held in arguments.items()}, upto))
        left = self._pad.side == "left"
        for name in self._padded:
            if name in arguments:
                arguments[name] = self._fill(self._libraries[name], arguments[name], upto, left=left)
        if self._pad.lengths is not None:
            arguments[self._pad.lengths] = _array(self._libraries[self._pad.lengths], lengths)
        if self._pad.mask is not None:
            mask = [_mask(length, upto, left=left) for length in lengths]
            arguments[self._pad.mask] = _array(self._libraries[self._pad.mask], mask)
        return arguments

    def spread(self, values: Sequence[Any], calls: Sequence[Call], num_items: int) -> list[Any]:
        """See `Form`."""
        return filled_up(values, num_items)

    def values(self, returned: Any, calls: Sequence[Call], num_items: int, title: str) -> list[Any]:
        """See `Form`."""
        found = slots(returned, num_items, title)[: len(calls)]
        if self._pad.answers == "whole":
            return found
        lengths = [self.length(call.kwargs) for call in calls]
        upto = self._upto(lengths)
        return [self._cut(value, length, upto, title) for value, length in zip(found, lengths, strict=True)]

    def _upto(self, lengths: Sequence[int]) -> int:
        longest = max(lengths)
        return bucket_of(longest, self._buckets) or longest

    def _fill(self, library: str | None, items: list[Any], length: int, *, left: bool) -> Any:
        if library is not None:
            return None if items[0] is None else arrays.fill(library, items, length, self._pad.value, left=left)
        filler = _like(next((item[0] for item in items if item), 0), self._pad.value)
        return [None if item is None else _filled(item, filler, length, left=left) for item in items]

    def _cut(self, value: Any, length: int, upto: int, title: str) -> Any:
        """Return an answer at its item's own length. What is no list or array is left as it is."""
        if not isinstance(value, list | tuple) and not getattr(value, "shape", None):
            return value
        num = len(value)
        if num == length:
            return value
        if num != upto:
            return Raised(
                HandlerError(
                    f"{title} gave an answer of length {num} for an item of length {length} that was padded to {upto}; "
                    'give one value for each element, or set Pad(answers="whole")'
                )
            )
        return value[upto - length :] if self._pad.side == "left" else value[:length]


def _own(item: Any) -> Any:
    """Return a copy that may be filled up in place: the answer is cut to the length that the item has."""
    return item.copy() if type(item) is list else owned_array(item)


def _length(name: str, value: Any) -> int:
    if getattr(value, "shape", None) == ():
        raise BadInput(f"{name} is a single number; send a list of them")
    return len(value)


def _filled(item: list[Any], filler: Any, length: int, *, left: bool) -> list[Any]:
    blank = [filler] * (length - len(item))
    return [*blank, *item] if left else [*item, *blank]


def _like(item: Any, value: float) -> Any:
    return [_like(inner, value) for inner in item] if isinstance(item, list | tuple) else value


def _mask(length: int, upto: int, *, left: bool) -> list[bool]:
    own, blank = [True] * length, [False] * (upto - length)
    return blank + own if left else own + blank


def _array(library: str | None, values: list[Any]) -> Any:
    """Return numbers as the handler asks for them: a list, or an array or a tensor of them."""
    return values if library is None else arrays.array_of(library, values)
