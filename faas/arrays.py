"""Arrays and tensors on a signature: from JSON lists in, to JSON lists out, without importing their libraries.

A library counts only where the user's own module has imported it, so nothing here costs a process that has no arrays.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from faas.errors import SettingError

Shape = tuple[int | None, ...]

_FINER = ("ns", "ps", "fs", "as")
"""Units of time that are finer than what Python has: without them a moment is a moment, and not a number."""

_SAFE_KINDS = {"b": "b", "i": "biu", "u": "bu", "f": "biuf", "c": "biufc"}


@dataclass(frozen=True)
class Array:
    """The element type and shape of an array on a signature: `Annotated[np.ndarray, Array("float64", (None, 4))]`.

    `dtype` is NumPy's name, or torch's without the `torch.`, or the type itself. A dimension of None may have any
    length. In a batched function the first dimension is the batch's, and callers send the rest.
    """

    dtype: str
    shape: Shape | None = None

    def __post_init__(self) -> None:
        name = self.dtype if isinstance(self.dtype, str) else getattr(self.dtype, "__name__", str(self.dtype))
        object.__setattr__(self, "dtype", name.removeprefix("torch."))
        if self.shape is not None:
            dimensions = tuple(self.shape)
            if not all(d is None or (isinstance(d, int) and d >= 0) for d in dimensions):
                raise SettingError(
                    f"Array(shape={self.shape!r}): each dimension is a whole number of at least 0, or None"
                )
            object.__setattr__(self, "shape", dimensions)

    def item(self) -> Array:
        """Return the array of one item of a batch: the same without its first dimension."""
        return Array(self.dtype, self.shape[1:] if self.shape else None)


class _ArrayMeta(type):
    """Makes a type that stands for the arrays of one library, element type and shape."""

    library: str
    array: Array | None

    def __instancecheck__(cls, value: object) -> bool:
        return library_of(type(value)) == cls.library


def library_of(kind: object) -> str | None:
    """Return "numpy" or "torch" where `kind` is that library's array type, else None."""
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__name__", "")
    if module == "numpy" and name == "ndarray":
        return "numpy"
    if module.partition(".")[0] == "torch" and name in ("Tensor", "Parameter"):
        return "torch"
    return None


def array_type(library: str, array: Array | None) -> type:
    """Return the type that the decoder knows such an array by.

    Raises:
        SettingError: the library has no such element type, or it is none of numbers.
    """
    if array is not None:
        array = Array(_element_type(library, array.dtype), array.shape)
    return _ArrayMeta(f"{library}_array", (), {"library": library, "array": array})


def _element_type(library: str, name: str) -> str:
    """Return the library's own name of an element type: `float` is one thing to NumPy, and another to torch."""
    import numpy as np  # the user's module has it already

    home = sys.modules[library]
    if library == "torch" and isinstance(found := getattr(home, name, None), home.dtype):
        name = _torch_name(found)
        if found.is_floating_point:
            return name
    with contextlib.suppress(TypeError):
        known = np.dtype(name)
        if known.kind in _SAFE_KINDS and (library == "numpy" or hasattr(home, known.name)):
            return known.name
    raise SettingError(
        f"Array({name!r}): {library} has no numbers of that type; write one such as 'float32' or 'int64'"
    )


def _torch_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def is_array_type(kind: object) -> bool:
    """Tell whether `kind` came from `array_type`."""
    return isinstance(kind, _ArrayMeta)


def decode(kind: Any, value: object) -> Any:
    """Turn nested lists of numbers into the array that `kind` (of `array_type`) stands for.

    Raises:
        ValueError: ragged, not numeric, of another shape, or not to be held in the element type without loss.
    """
    import numpy as np  # the user's module has it already

    try:
        found = np.asarray(value)
    except ValueError:
        found = np.asarray(None)
    if found.dtype.kind not in "biufc":
        raise ValueError("Expected an array of numbers of equal lengths")
    return fitted(kind, found)


def fitted(kind: Any, found: Any) -> Any:
    """Return a NumPy array of numbers as the array that `kind` (of `array_type`) stands for.

    Raises:
        ValueError: of another shape, or not to be held in the element type without loss.
    """
    declared: Array | None = kind.array
    if kind.library != "torch":
        return found if declared is None else _cast(found, declared)
    if declared is None and found.dtype.kind == "f":
        declared = Array(_default_type())
    return _tensor(found, declared)


def _default_type() -> str:
    """Return what torch makes of Python's floats."""
    return _torch_name(sys.modules["torch"].get_default_dtype())


def _tensor(found: Any, declared: Array | None) -> Any:
    torch = sys.modules["torch"]
    if declared is None:
        return torch.from_numpy(found)
    tensor, wanted = torch.from_numpy(_cast(found, declared)), getattr(torch, declared.dtype)
    if tensor.dtype is wanted:
        return tensor
    tensor = tensor.to(wanted)
    if not tensor.float().isfinite().all():
        raise ValueError(f"Expected numbers within {declared.dtype}, got others")
    return tensor


def _cast(found: Any, declared: Array) -> Any:
    import numpy as np

    if declared.shape is not None:
        fits = len(found.shape) == len(declared.shape) and all(
            want is None or have == want for have, want in zip(found.shape, declared.shape, strict=True)
        )
        if not fits:
            raise ValueError(f"Expected an array of shape {_text(declared.shape)}, got {_text(found.shape)}")
    wanted: np.dtype[Any] = np.dtype("float32")  # what torch makes its own types of, such as bfloat16
    with contextlib.suppress(TypeError):
        known = np.dtype(declared.dtype)
        if known.kind in _SAFE_KINDS:  # a library may have taught NumPy that name, as raw bytes
            wanted = known
    if found.size == 0 or found.dtype.kind in _SAFE_KINDS.get(wanted.kind, ""):
        with np.errstate(over="ignore"):
            cast = found.astype(wanted)
        kept = cast == found if wanted.kind in "iu" else np.isfinite(cast)
        if found.size and not kept.all():
            raise ValueError(f"Expected numbers within {wanted}, got others")
        return cast
    if wanted.kind in "iu" and found.dtype.kind == "f":
        least, most = np.iinfo(wanted).min, np.iinfo(wanted).max
        if ((found < float(least)) | (found >= float(most) + 1)).any():
            raise ValueError(f"Expected numbers within {wanted}, got others")
    cast = found.astype(wanted)
    if not (cast == found).all():
        raise ValueError(f"Expected an array of {wanted}, got {found.dtype} that would lose its fractions")
    return cast


def _text(shape: Sequence[int | None]) -> str:
    return "(" + ", ".join("any" if d is None else str(d) for d in shape) + ")"


def example_array(library: str, example: object) -> Array | None:
    """Return the element type and shape that an example input (nested lists, or an array) shows."""
    import numpy as np

    found = np.asarray(example)
    if found.dtype.kind not in _SAFE_KINDS:
        return None
    are_pythons = found.dtype == np.float64 and not hasattr(example, "dtype")
    return Array(_default_type() if library == "torch" and are_pythons else found.dtype.name, found.shape)


def json_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON schema of `kind` (of `array_type`)."""
    array: Array | None = kind.array
    if array is None or array.shape is None:
        return {"type": "array", "items": {}, "description": "nested lists of numbers, of equal lengths"}
    whole = array.dtype.startswith(("int", "uint"))
    schema: dict[str, Any] = {"type": "integer" if whole else "boolean" if array.dtype == "bool" else "number"}
    for length in reversed(array.shape):
        schema = {"type": "array", "items": schema}
        if length is not None:
            schema |= {"minItems": length, "maxItems": length}
    return schema | {"description": array.dtype}


def stack(library: str, items: list[Any]) -> Any:
    """Join the items of a batch on a new first axis.

    Raises:
        ValueError: the items' shapes differ.
    """
    if library == "torch":
        return sys.modules["torch"].stack(items)
    return sys.modules["numpy"].stack(items)


def concatenate(library: str, items: list[Any], num_extra: int = 0) -> Any:
    """Join arrays on their first axis, with `num_extra` copies of the last row at the end.

    Raises:
        ValueError: their further axes differ.
    """
    home = sys.modules[library]
    whole = items + [items[-1][-1:]] * num_extra
    return home.cat(whole) if library == "torch" else home.concatenate(whole)


def fill(library: str, items: list[Any], length: int, value: float, *, left: bool) -> Any:
    """Join arrays of at most `length` on a new first axis, each filled up with `value`, on the left or on the right."""
    home, first = sys.modules[library], items[0]
    joined = home.full((len(items), length, *first.shape[1:]), value, dtype=first.dtype)
    for row, item in zip(joined, items, strict=True):
        num = len(item)
        row[length - num if left else 0 : length if left else num] = item
    return joined


def array_of(library: str, values: list[Any]) -> Any:
    """Return an array of that library with the numbers of a nested list."""
    home = sys.modules[library]
    return home.tensor(values) if library == "torch" else home.asarray(values)


def to_plain(value: Any) -> Any:
    """Return what JSON knows for an array, a tensor or a library's scalar; NotImplemented for anything else."""
    root = type(value).__module__.partition(".")[0]
    if root == "torch" and hasattr(value, "detach"):
        found = value.detach().cpu()
        return (found if found.layout is sys.modules["torch"].strided else found.to_dense()).tolist()
    if root == "numpy" and hasattr(value, "tolist"):
        return _plain_of_numpy(value)
    return NotImplemented


def _plain_of_numpy(value: Any) -> Any:
    kind = value.dtype.kind
    if kind in "mM" and sys.modules["numpy"].datetime_data(value.dtype)[0] in _FINER:
        value = value.astype(f"{kind}8[us]")
    plain = value.tolist()
    return float(plain) if type(plain) is type(value) else plain  # a longdouble, which Python has no number for
