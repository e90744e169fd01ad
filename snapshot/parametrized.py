"""Torch modules with parametrised tensors, which torch itself refuses to pickle.

`torch.nn.utils.parametrize` gives such a module a class of its own, made at run time, with a property for each tensor
that is computed. Here the module is taken apart as one of its original class, and the class is made again around it.
Torch has no public call for that second half; a snapshot is thawed with the torch that it was frozen with.
Torch is imported inside the functions: a graph without modules does without it.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_MADE_BY = "torch.nn.utils.parametrize"


def is_parametrized(one: Any) -> bool:
    """Whether an object is a module whose class torch made for its parametrised tensors."""
    return type(one).__module__ == _MADE_BY and bool(sys.modules[_MADE_BY].is_parametrized(one))


def reduce_module(module: Any) -> tuple[Any, ...]:
    """A parametrised module as its original class, the names of its computed tensors, and its state."""
    original: Any = type(module).__bases__[0]
    return empty_module, (original, tuple(module.parametrizations)), original.__getstate__(module)


def empty_module(original: Any, computed: tuple[str, ...]) -> "torch.nn.Module":
    """What skeletons name for a module without its state whose tensors called `computed` are parametrised."""
    from torch.nn.utils import parametrize

    module: torch.nn.Module = original.__new__(original)
    parametrize._inject_new_class(module)
    for name in computed:
        parametrize._inject_property(module, name)
    return module
