"""The torch side of a snapshot: from a tensor to the description of its memory, from a mapped view to a tensor.

Torch is imported inside the functions: a graph without tensors is frozen and thawed without it.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING

from snapshot.bounds import check_bounds
from snapshot.errors import BadViewError, UnsupportedDtypeError
from snapshot.manifest import View
from snapshot.plan import Source

if TYPE_CHECKING:
    import torch

# Torch's and safetensors' names; tensors of any other type are stored as bytes.
_STORED_DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "complex64": "C64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
}  # fmt: skip
_TORCH_DTYPES = {stored: dtype for dtype, stored in _STORED_DTYPES.items()}

FORMS = ("torch", "parameter")
"""What views of tensors are."""


def stored_dtype(dtype: "torch.dtype") -> str | None:
    """Safetensors' name of a type, where it has one."""
    return _STORED_DTYPES.get(str(dtype).removeprefix("torch."))


def dtype_name(stored: str) -> str | None:
    """Torch's name of a type of safetensors, where it has one; views say it so."""
    return _TORCH_DTYPES.get(stored)


def is_plain(tensor: "torch.Tensor") -> bool:
    """Whether the tensor is strided memory and nothing more; torch's own reduction takes the others apart."""
    import torch

    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.device.type != "meta"
        and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg())
        and not tensor._backward_hooks
    )


def describe(tensor: "torch.Tensor") -> Source:
    """The memory of a plain tensor. Raises ValueError when it has been freed under the tensor."""
    import torch

    if tensor.numel() and not tensor.data_ptr():
        raise ValueError("the tensor has no memory: its storage was freed or resized")
    dtype = str(tensor.dtype).removeprefix("torch.")
    item_bytes = tensor.element_size()
    return Source(
        form="parameter" if type(tensor) is torch.nn.Parameter else "torch",
        dtype=dtype,
        stored_dtype=_STORED_DTYPES.get(dtype, ""),
        item_bytes=item_bytes,
        shape=tuple(tensor.shape),
        strides=tuple(stride * item_bytes for stride in tensor.stride()),
        address=tensor.data_ptr(),
        device=str(tensor.device),
        requires_grad=tensor.requires_grad,
    )


def describe_storage(storage: "torch.UntypedStorage") -> Source:
    """The memory of a storage."""
    return Source(
        form="storage",
        dtype="uint8",
        stored_dtype="U8",
        item_bytes=1,
        shape=(storage.nbytes(),),
        strides=(1,),
        address=storage.data_ptr(),
        device=str(storage.device),
    )


def is_typed_storage(one: object) -> bool:
    """Whether an object is the kind of storage that torch's own reductions hand on."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(one, torch.storage.TypedStorage)


def typed_storage(storage: "torch.UntypedStorage", dtype: "torch.dtype") -> "torch.TypedStorage":
    """What skeletons name for the storage that torch's own reductions hand on."""
    import torch

    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def same(tensor: "torch.Tensor") -> "torch.Tensor":
    """What skeletons name to make a tensor that has attributes of its own."""
    return tensor


def c_order_bytes(tensor: "torch.Tensor") -> memoryview:
    """A copy of the elements in C order, as bytes."""
    import torch

    return _as_memory(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8))


def device_bytes(holder: "torch.Tensor | torch.UntypedStorage", address: int, num_bytes: int) -> memoryview:
    """A copy of device memory that lies in the storage of `holder`."""
    import torch

    storage = holder.untyped_storage() if isinstance(holder, torch.Tensor) else holder
    flat = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return _as_memory(flat.set_(storage, address - storage.data_ptr(), (num_bytes,), (1,)).cpu())


def _as_memory(flat: "torch.Tensor") -> memoryview:
    return memoryview(flat.numpy())


def storage_on(memory: memoryview, device: str) -> "torch.UntypedStorage":
    """A stored tensor's memory as a storage: in place on the CPU, copied to any other device."""
    import torch

    if not len(memory):
        return torch.UntypedStorage(0, device=device)
    flat = torch.frombuffer(memory, dtype=torch.uint8)
    return (flat if device == "cpu" else flat.to(device)).untyped_storage()


def wholes(views: Iterable[View], memory: Sequence[memoryview]) -> "Iterator[torch.Tensor | None]":
    """Of each view, the tensor or parameter that it describes, where it is all of its stored tensor, on the CPU; else
    None.

    What `from_view` makes too, with half of its calls of torch: nearly all tensors of a model are such. Its storage is
    the whole stored tensor, so other views can lie in that.
    """
    import torch

    for view in views:
        stored, whole = memory[view.tensor], None
        dtype = getattr(torch, view.dtype, None) if view.strides is None and not view.start and len(stored) else None
        if isinstance(dtype, torch.dtype) and prod(view.shape) * dtype.itemsize == len(stored):
            try:
                flat = torch.frombuffer(stored, dtype=dtype)
                # In place, as its memory is what the shape takes: a view would be one more tensor to make.
                whole = _as_form(view, flat if len(view.shape) == 1 else flat.resize_(view.shape))
            except (RuntimeError, TypeError, ValueError):  # a type that buffers cannot have, or a view that is none
                pass
        yield whole


def _as_form(view: View, tensor: "torch.Tensor") -> "torch.Tensor":
    import torch

    if view.form == "parameter":
        # What torch.nn.Parameter itself does with a plain tensor, once it has looked at it.
        return torch.Tensor._make_subclass(torch.nn.Parameter, tensor, view.requires_grad)
    return tensor.requires_grad_() if view.requires_grad else tensor


def from_view(view: View, storage: "torch.UntypedStorage") -> "torch.Tensor":
    """The tensor or parameter that `view` describes, in `storage`.

    Raises BadViewError when it does not fit, and UnsupportedDtypeError when torch has no such type.
    """
    import torch

    dtype = getattr(torch, view.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise UnsupportedDtypeError(f"tensor {view.name!r} is {view.dtype}, which this torch does not have")
    item_bytes = dtype.itemsize
    check_bounds(view, item_bytes, storage.nbytes())
    # Without strides, torch takes the elements to lie in C order.
    steps = [distance // item_bytes for distance in view.strides or ()]
    if view.start % item_bytes or any(stride % item_bytes or stride < 0 for stride in view.strides or ()):
        raise BadViewError(f"{view.name!r} has distances that are no multiples of its {item_bytes}-byte elements")
    tensor = torch.empty(0, dtype=dtype, device=storage.device)
    try:
        tensor.set_(storage, view.start // item_bytes, view.shape, steps)
        return _as_form(view, tensor)
    except (RuntimeError, TypeError) as error:
        raise BadViewError(f"{view.name!r} cannot lie in its stored tensor: {error}") from error


def storage_from_view(view: View, storage: "torch.UntypedStorage") -> "torch.UntypedStorage":
    """The storage that `view` describes: `storage` itself when it is all of it."""
    return storage if view.shape == (storage.nbytes(),) else storage[view.start : view.start + view.shape[0]]


def from_stored(name: str, dtype: str, shape: tuple[int, ...], memory: memoryview) -> "torch.Tensor":
    """A stored tensor as torch has it. Raises UnsupportedDtypeError."""
    return from_storage(name, dtype, shape, storage_on(memory, "cpu"))


def from_storage(name: str, dtype: str, shape: tuple[int, ...], storage: "torch.UntypedStorage") -> "torch.Tensor":
    """A stored tensor whose bytes are in `storage`, as torch has it. Raises UnsupportedDtypeError.

    Torch packs two 4-bit floats into an element, so the last dimension is half as long there.
    """
    torch_dtype = _TORCH_DTYPES.get(dtype)
    if dtype == "F4" and shape and shape[-1] % 2 == 0:
        torch_dtype, shape = "float4_e2m1fn_x2", (*shape[:-1], shape[-1] // 2)
    if torch_dtype is None:
        raise UnsupportedDtypeError(f"tensor {name!r} is {dtype}, which torch cannot express here: read its bytes")
    view = View(tensor=0, form="torch", name=name, dtype=torch_dtype, shape=shape)
    return from_view(view, storage)
