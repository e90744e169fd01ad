"""Whether a view lies within its memory.

Computed here, in integers that cannot overflow: numpy's own check of strides can, and would hand out an array on memory
that is not ours.
"""

from snapshot.errors import BadViewError
from snapshot.manifest import View


def c_strides(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    """Bytes from one element to the next in each dimension, the last dimension fastest."""
    strides, step = [], item_bytes
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def checked_strides(view: View, item_bytes: int, num_bytes: int) -> tuple[int, ...]:
    """The strides of `view`, once all its elements are known to lie within its stored tensor of `num_bytes`.

    Raises BadViewError.
    """
    strides = c_strides(view.shape, item_bytes) if view.strides is None else view.strides
    low, high = view.start, view.start + item_bytes
    for size, stride in zip(view.shape, strides, strict=True):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    if (low < 0 or high > num_bytes) and 0 not in view.shape:
        raise BadViewError(f"{view.name!r} reaches past the {num_bytes} bytes of its stored tensor: {low} to {high}")
    return strides
