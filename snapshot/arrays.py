"""The numpy side of a snapshot: from an array to the description of its memory, from a mapped view to an array.

Numpy is imported inside the functions: a graph without arrays is thawed without it.
"""

import functools
import re
import sys
from typing import TYPE_CHECKING, Any

from snapshot.bounds import check_bounds
from snapshot.errors import BadViewError, UnsupportedDtypeError
from snapshot.manifest import View
from snapshot.plan import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

# Numpy's type strings and safetensors' names; arrays of any other type are stored as bytes.
_STORED_DTYPES = {
    "|b1": "BOOL", "|u1": "U8", "|i1": "I8", "<u2": "U16", "<i2": "I16", "<u4": "U32", "<i4": "I32", "<u8": "U64",
    "<i8": "I64", "<f2": "F16", "<f4": "F32", "<f8": "F64", "<c8": "C64",
}  # fmt: skip
# Byte order, kind and size, and of times the unit: never a reference to an object, never a type within a type.
_TYPE_STRING = re.compile(r"[<>|][biufcmMSUV][0-9]{1,10}(\[[0-9]{0,10}[A-Za-zμ]{1,2}(/[0-9]{1,10})?\])?")
_PICKLING = ("__reduce__", "__reduce_ex__", "__setstate__", "__getstate__")
_NUMPY_DTYPES = {stored: dtype for dtype, stored in _STORED_DTYPES.items()}


def is_plain(array: "Array") -> bool:
    """Whether the type string alone brings the array's type back (it does not for records and foreign types)."""
    import numpy as np

    dtype = array.dtype
    return not dtype.hasobject and not dtype.metadata and np.dtype(dtype.str) == dtype


def is_bare_subclass(kind: type) -> bool:
    """Whether `kind` is a subclass of numpy's array that pickles as arrays do, with attributes at most."""
    numpy = sys.modules.get("numpy")
    return (
        numpy is not None
        and issubclass(kind, numpy.ndarray)
        and all(getattr(kind, name) is getattr(numpy.ndarray, name) for name in _PICKLING)
    )


def base_of(array: "Array") -> "Array":
    """The same memory as an array of numpy's own class."""
    import numpy as np

    return array.view(np.ndarray)


def as_subclass(array: "Array", kind: type["Array"]) -> "Array":
    """The same memory as an array of class `kind`; what skeletons name for subclasses."""
    return array.view(kind)


def as_void(array: "Array") -> "Array":
    """The same memory, its elements untyped."""
    import numpy as np

    return array.view(np.dtype((np.void, array.dtype.itemsize)))


def describe(array: "Array") -> Source:
    """The memory of an array whose type is plain."""
    return Source(
        form="numpy",
        dtype=array.dtype.str,
        stored_dtype=_STORED_DTYPES.get(array.dtype.str, ""),
        item_bytes=array.dtype.itemsize,
        shape=array.shape,
        strides=array.strides,
        address=array.__array_interface__["data"][0],
        read_only=not array.flags.writeable,
    )


def describe_buffer(memory: memoryview) -> Source:
    """Bare memory, as bytes."""
    import numpy as np

    address = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    return Source(
        form="buffer",
        dtype="|u1",
        stored_dtype="U8",
        item_bytes=1,
        shape=(len(memory),),
        strides=(1,),
        address=address,
    )


def with_dtype(array: "Array", dtype: "np.dtype[Any]") -> "Array":
    """The same memory as elements of `dtype`; what skeletons name for types that a type string does not tell."""
    return array.view(dtype)


def c_order_bytes(array: "Array") -> memoryview:
    """A copy of the elements in C order, as bytes."""
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def from_view(view: View, memory: memoryview) -> "Array":
    """The array that `view` describes, in place in the stored tensor's `memory`.

    Raises BadViewError when it does not fit, or when its bytes would be taken for addresses of objects.
    """
    import numpy as np

    try:
        dtype = _dtype(view.dtype)
        check_bounds(view, dtype.itemsize, len(memory))
        array: Array = np.ndarray(view.shape, dtype, memory, view.start, view.strides)
    except (TypeError, ValueError) as error:
        raise BadViewError(f"{view.name!r} does not fit its stored tensor: {error}") from error
    if view.read_only:
        array.flags.writeable = False
    return array


@functools.lru_cache(64)
def _dtype(type_string: str) -> "np.dtype[Any]":
    import numpy as np

    if not _TYPE_STRING.fullmatch(type_string):
        raise TypeError(f"{type_string!r} is no type of plain numbers or text")
    return np.dtype(type_string)


def from_stored(name: str, dtype: str, shape: tuple[int, ...], memory: memoryview) -> "Array":
    """A stored tensor as an array. Raises UnsupportedDtypeError: numpy has neither bfloat16 nor 8-bit floats."""
    import numpy as np

    if dtype in _NUMPY_DTYPES:
        return np.ndarray(shape, np.dtype(_NUMPY_DTYPES[dtype]), memory)
    raise UnsupportedDtypeError(
        f"tensor {name!r} is {dtype}, which numpy cannot express: read it with torch, or as bytes"
    )
