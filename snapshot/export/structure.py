"""Arguments and answers of a model taken apart into their arrays, and put together again, without torch.

A structure is plain data, so that it can be kept beside an exported model:

    ("array", 3)                        the array of that number
    ("constant", value)                 None, a number, a text: the same in every call
    ("list" | "tuple", [structure])     in order
    ("dict" | "named", {key: structure})    "named" has its keys as attributes too, as the outputs of transformers do
    ("left out", "DynamicCache")        something that cannot be kept, by the name of its class
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Structure = tuple[str, Any]

_CONSTANTS = (type(None), bool, int, float, str)


class Named(dict[str, Any]):
    """A mapping whose values are also attributes, and items by their number."""

    def __init__(self, values: Mapping[str, Any], left_out: Mapping[str, str] = {}) -> None:
        super().__init__(values)
        self._left_out = dict(left_out)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self:
            return self[name]
        if name in self._left_out:
            raise AttributeError(f"{name!r} was left out when the model was exported: it was a {self._left_out[name]}")
        raise AttributeError(f"the model's answer has no {name!r}; it has: {', '.join(self)}")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return super().__getitem__(key)
        return self.to_tuple()[key]

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the values that are not None, in order."""
        return tuple(value for value in self.values() if value is not None)


def take_apart(value: Any, is_array: Callable[[Any], bool]) -> tuple[list[Any], Structure]:
    """Return the arrays in `value`, in order, and the structure that they were in."""
    arrays: list[Any] = []
    return arrays, _take_apart(value, is_array, arrays)


def put_together(structure: Structure, arrays: Sequence[Any]) -> Any:
    """Return the value that has this structure, with `arrays` in it."""
    kind, content = structure
    if kind == "array":
        return arrays[content]
    if kind == "constant":
        return content
    if kind in ("list", "tuple"):
        parts = [put_together(part, arrays) for part in content]
        return parts if kind == "list" else tuple(parts)
    values = {key: put_together(part, arrays) for key, part in content.items() if part[0] != "left out"}
    if kind == "dict":
        return values
    return Named(values, {key: part[1] for key, part in content.items() if part[0] == "left out"})


def is_numbers(value: object) -> bool:
    """Tell whether `value` is a list, or lists of lists, of nothing but numbers, at least one of them."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(one, bool | int | float) or is_numbers(one) for one in value)


def paths(structure: Structure, path: str = "") -> Iterable[tuple[str, Structure]]:
    """Yield every array, constant and left-out part of a structure with its path, such as `images.0`."""
    kind, content = structure
    if kind in ("list", "tuple"):
        parts: Iterable[tuple[Any, Structure]] = enumerate(content)
    elif kind in ("dict", "named"):
        parts = content.items()
    else:
        yield path, structure
        return
    for key, part in parts:
        yield from paths(part, f"{path}.{key}" if path else str(key))


def _take_apart(value: Any, is_array: Callable[[Any], bool], arrays: list[Any]) -> Structure:
    if is_array(value):
        arrays.append(value)
        return "array", len(arrays) - 1
    if isinstance(value, _CONSTANTS):
        return "constant", value
    if isinstance(value, Mapping):
        kind = "dict" if type(value) is dict else "named"
        return kind, {str(key): _take_apart(part, is_array, arrays) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return "named", {name: _take_apart(getattr(value, name), is_array, arrays) for name in value._fields}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return kind, [_take_apart(part, is_array, arrays) for part in value]
    return "left out", type(value).__qualname__
