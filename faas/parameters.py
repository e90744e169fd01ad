"""The parameters of a handler that callers send values for, read from its signature."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec

from faas import arrays, codec, hints
from faas.arrays import Array
from faas.errors import SchemaMismatch, SettingError
from faas.spec import Pad

_STAY: Final = (str, int, float, bool, type(None), bytes)
"""Types of defaults that no handler can change."""


class Parameter(msgspec.Struct, frozen=True, dict=True):
    """One body parameter. `type` is what one caller sends; `library` names the arrays a batch is stacked into."""

    name: str
    type: Any
    required: bool
    default: Any = None
    raw: bool = False
    library: str | None = None

    @cached_property
    def is_object(self) -> bool:
        """Whether a JSON object is this parameter's own value."""
        return hints.is_object(self.type)

    def made_default(self) -> Any:
        """Return the default for one call: a new one, since a handler may change what it is given."""
        if isinstance(self.default, _STAY):
            return self.default
        try:
            return copy.deepcopy(self.default)
        except Exception:  # there is one such object, and all calls get it
            return self.default


class Reading(msgspec.Struct, frozen=True):
    """How a signature is to be read."""

    batched: bool
    rows: bool
    pad: Pad | None
    example: Any

    @property
    def pad_names(self) -> tuple[str, ...]:
        """The names of the parameters that receive the mask and the lengths of padding."""
        return self.pad.names if self.pad is not None else ()

    @property
    def pad_mask(self) -> str | None:
        """The one of them that receives which elements are an item's own."""
        return self.pad.mask if self.pad is not None else None


def parameter_of(fn: Callable[..., Any], parameter: inspect.Parameter, hint: Any, reading: Reading) -> Parameter:
    """Read one parameter of `fn`, annotated `hint`.

    Raises:
        SettingError: it is that of a batched function, and no list, or its default is that of a batch.
    """
    batched = reading.batched
    if batched:
        item, library = hints.rows_type(hint) if reading.rows else hints.item_type(hint)
    else:
        item, library = hints.adapted(hint), hints.library_of(hint)
    if item is None:
        raise SettingError(
            f"{hints.title(fn)}: with batching= the parameter {parameter.name} receives all items of a batch: "
            f"annotate it as a list (list[{hints.type_title(hint)}]) or an array"
        )
    required = parameter.default is parameter.empty
    odd = hints.without_json(item) if required else None
    if odd is not None:
        raise SettingError(
            f"{hints.title(fn)}: {parameter.name} is annotated {hints.type_title(odd)}, which no JSON can be read as; "
            "take bytes, text, numbers, or a dataclass of such, and make it in the handler"
        )
    default = None if required else parameter.default
    if batched and isinstance(default, list) and library is None and not _fits(default, item):
        raise SettingError(
            f"{hints.title(fn)}: with batching= the default of {parameter.name} is for an item that leaves it out, and "
            f"{default!r} is no {hints.type_title(item)}; write the default of one item"
        )
    return Parameter(parameter.name, item, required, default, item is bytes, library if batched else None)


def _fits(default: object, kind: Any) -> bool:
    try:
        codec.convert(default, kind)
    except (SchemaMismatch, TypeError, NotImplementedError):  # the latter two are of a type that cannot be read at all
        return False
    return True


def with_example(parameter: Parameter, reading: Reading, *, single: bool) -> Parameter:
    """Return a bare array with the element type and shape that the example input shows, anything else as it is.

    `single`: the example may be this parameter's value.
    """
    kind, example = parameter.type, reading.example
    if example is None or not arrays.is_array_type(kind) or kind.array is not None:
        return parameter
    held = example
    if isinstance(example, Mapping):
        held = example.get(parameter.name)
    elif not single:
        return parameter
    array = arrays.example_array(kind.library, held)
    if array is None:
        return parameter
    if array.shape and (reading.rows or reading.pad is not None):
        array = Array(array.dtype, (None, *array.shape[1:]))
    adapted = arrays.array_type(kind.library, array)
    return Parameter(parameter.name, adapted, parameter.required, parameter.default, False, parameter.library)
