"""The tensors of an object graph that is made anew in each process, held once for all of them.

    snapshot.freeze(sharing.of(state), folder)                 once
    sharing.share(state, snapshot.thaw(folder).state)          in each process, after it has made `state` itself

A tensor's memory is exchanged only where every byte is the same: sharing changes what a process holds, never what it
computes.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from snapshot import paths, tensors

if TYPE_CHECKING:
    import torch


def of(root: object) -> dict[str, "torch.Tensor"]:
    """The tensors on the CPU that can be reached from `root` without calling anything, by their paths.

    Left out are those that are more than strided memory, or empty. Without torch in the process there are none.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        paths.dotted(path): one
        for path, one in paths.walk(root, lambda one: isinstance(one, torch.Tensor))
        if isinstance(one, torch.Tensor) and tensors.is_plain(one) and one.device.type == "cpu" and one.numel()
    }


def share(root: object, mapped: Mapping[str, "torch.Tensor"]) -> int:
    """Have the tensors of `root` lie in the memory of those of the same path in `mapped`; how many bytes do then.

    The tensors stay the objects that they are, and those that share memory share it still: a memory is exchanged when
    all of it that is known can be.
    """
    shared_bytes = 0
    taken: set[int] = set()
    for group in _by_storage(of(root)):
        found = [mapped.get(name) for name in group]
        storages = {other.untyped_storage().data_ptr() for other in found if other is not None}
        # What was tied when it was frozen and is apart now is equal still, and would be tied again.
        if taken.isdisjoint(storages) and all(
            other is not None and _is_same(one, other) for one, other in zip(group.values(), found, strict=True)
        ):
            for one, other in zip(group.values(), found, strict=True):
                assert other is not None
                one.data = other.detach()
            taken |= storages
            shared_bytes += next(iter(group.values())).untyped_storage().nbytes()
    return shared_bytes


def _by_storage(named: Mapping[str, "torch.Tensor"]) -> list[dict[str, "torch.Tensor"]]:
    groups: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in named.items():
        groups.setdefault(tensor.untyped_storage().data_ptr(), {})[name] = tensor
    return list(groups.values())


def _is_same(one: "torch.Tensor", other: "torch.Tensor") -> bool:
    """Whether two tensors are alike to the byte; equal numbers are not enough, and not-a-number is like itself."""
    import torch

    if (one.dtype, one.shape, one.stride()) != (other.dtype, other.shape, other.stride()):
        return False
    return bool(torch.equal(_bytes(one), _bytes(other)))


def _bytes(tensor: "torch.Tensor") -> "torch.Tensor":
    import torch

    return tensor.detach().contiguous().view(-1).view(torch.uint8)
