"""What callers give made into what a model takes: cast where nothing is lost, refused by the input's name elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from snapshot.errors import InputMismatch

if TYPE_CHECKING:
    import numpy as np

Axis = int | str | None

_FIRST_INEXACT = 2.0**53
"""From here on not every integer is a float."""
_TEXT = "text"
_KINDS = {"U": _TEXT, "T": _TEXT, "S": "bytes", "O": "objects"}
"""What callers are told of arrays that hold no numbers."""


@dataclass(frozen=True)
class Input:
    """One input that a model declares: its dtype as numpy spells it, and its axes, a number where one is fixed.

    `shape` None is of any number of axes.
    """

    name: str
    dtype: str
    shape: tuple[Axis, ...] | None

    def __str__(self) -> str:
        return f"{_TEXT if self.dtype == 'object' else self.dtype}{_spelt(self.shape)}"


def fit(declared: Input, given: Any, *, any_batch: bool = False) -> "np.ndarray[Any, Any]":
    """Return `given` as an array of the declared dtype.

    Integers widen, and narrow where they are in range; floats of any width become one another, as JSON has only one
    kind; whole floats become integers, as JSON may spell 1 as 1.0. With `any_batch` axis 0 may be of any length.
    Raises InputMismatch, which names the input, what was given and what is wanted.
    """
    import numpy as np

    wanted = np.dtype(declared.dtype)
    try:
        array = _texts(given) if wanted.kind == "O" else np.asarray(given)
        if wanted.kind in "iu" and array.dtype.kind == "f" and isinstance(given, list | tuple):
            array = _exact(given, array, wanted)
    except ValueError:
        raise _mismatch(declared, "lists of different lengths") from None
    lengths = declared.shape
    if lengths is not None and not _fits(lengths, array.shape, any_batch):
        raise _mismatch(declared, _what(array))
    return array if array.dtype == wanted and wanted.kind != "O" else _cast(declared, array, wanted)


def _exact(given: Any, array: "np.ndarray[Any, Any]", wanted: "np.dtype[Any]") -> "np.ndarray[Any, Any]":
    """Large integers as they were given, where numpy took them for floats: for a float among them, or their range."""
    import numpy as np

    if not (np.abs(array) >= _FIRST_INEXACT).any() or not (np.isfinite(array) & (array == np.trunc(array))).all():
        return array
    limits = np.iinfo(wanted)
    numbers = [int(one) for one in np.asarray(given, dtype=object).flat]
    if not all(limits.min <= one <= limits.max for one in numbers):
        return array  # to be refused
    return np.array(numbers, dtype=wanted).reshape(array.shape)


def _texts(given: Any) -> "np.ndarray[Any, Any]":
    """Texts as objects: in an array of numpy's own each takes the memory of the longest, and loses zeros at its end."""
    import numpy as np

    if isinstance(given, list | tuple | str):
        array = np.asarray(given, dtype=object)
        if all(isinstance(one, str) for one in array.flat):
            return array
    return np.asarray(given)


def _fits(wanted: Sequence[Axis], given: Sequence[int], any_batch: bool) -> bool:
    return len(wanted) == len(given) and all(
        not isinstance(axis, int) or axis == length or (any_batch and number == 0)
        for number, (axis, length) in enumerate(zip(wanted, given, strict=True))
    )


def _cast(declared: Input, array: "np.ndarray[Any, Any]", wanted: "np.dtype[Any]") -> "np.ndarray[Any, Any]":
    import numpy as np

    what = _what(array)
    if wanted.kind == "O":  # texts, which onnxruntime takes as objects
        if array.dtype.kind in "UOT" and all(isinstance(one, str) for one in array.flat):
            return array.astype(object, copy=False)
        raise _mismatch(declared, what)
    if array.size == 0:
        return array.astype(wanted)
    if array.dtype.kind not in "biuf" or (wanted.kind == "b" and array.dtype.kind != "b"):
        raise _mismatch(declared, what)
    with np.errstate(all="ignore"):
        cast = array.astype(wanted)
    lost = _lost_as_integers(array, wanted) if wanted.kind in "iu" else np.isinf(cast) & np.isfinite(array)
    if lost.any():
        example = array[lost].flat[0]
        raise _mismatch(declared, f"{what} with {example}, which would not be the same as {wanted}")
    return cast


def _lost_as_integers(array: "np.ndarray[Any, Any]", wanted: "np.dtype[Any]") -> "np.ndarray[Any, Any]":
    import numpy as np

    limits = np.iinfo(wanted)
    if array.dtype.kind == "f":
        # The upper limit as a float is one above it: what is equal to that does not fit.
        lost = (array < float(limits.min)) | (array >= float(limits.max) + 1.0) | (array != np.trunc(array))
    elif array.dtype.kind == "b":
        lost = np.zeros(array.shape, dtype=bool)
    else:
        lost = (array < limits.min) | (array > limits.max)
    return np.asarray(lost)


def _mismatch(declared: Input, given: str) -> InputMismatch:
    return InputMismatch(declared.name, given, str(declared))


def _what(array: "np.ndarray[Any, Any]") -> str:
    return f"{_KINDS.get(array.dtype.kind, str(array.dtype))}{_spelt(array.shape)}"


def _spelt(shape: Sequence[Axis] | None) -> str:
    if shape is None:
        return ""
    return "[" + ", ".join(str(axis) if isinstance(axis, int) else "any" for axis in shape) + "]"
