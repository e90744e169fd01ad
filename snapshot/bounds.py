"""Whether a view lies within its memory.

Computed here, in integers that cannot overflow: numpy's own check of strides can, and would hand out an array on memory
that is not ours.
"""

from math import prod

from snapshot.errors import BadViewError
from snapshot.manifest import View


def check_bounds(view: View, item_bytes: int, num_bytes: int) -> None:
    """Raise BadViewError unless all elements of `view` lie within its stored tensor of `num_bytes`."""
    low = view.start
    if view.strides is None:
        high = low + prod(view.shape) * item_bytes
    elif 0 in view.shape:
        return
    else:
        reaches = [(size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True)]
        high = low + item_bytes + sum(reach for reach in reaches if reach > 0)
        low += sum(reach for reach in reaches if reach < 0)
    if low < 0 or high > num_bytes:
        raise BadViewError(f"{view.name!r} reaches past the {num_bytes} bytes of its stored tensor: {low} to {high}")
