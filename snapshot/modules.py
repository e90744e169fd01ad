"""Torch modules, which are taken apart in other ways than their own.

Most get their attributes back and nothing more: torch itself would look, in each, for what old checkpoints lack.

One with parametrised tensors torch refuses to pickle. `torch.nn.utils.parametrize` gives such a module a class of its
own, made at run time, with a property for each tensor that is computed. Here it is taken apart as one of its original
class, and the class is made again around it. Torch has no public call for that second half; a snapshot is thawed with
the torch that it was frozen with.

Torch is imported inside the functions: a graph without modules does without it.
"""

import copyreg
import pickle
import sys
from typing import TYPE_CHECKING, Any

from snapshot.reducers import set_attributes

if TYPE_CHECKING:
    import torch

_MADE_BY = "torch.nn.utils.parametrize"


def reduce_module(one: Any) -> tuple[Any, ...] | None:
    """How a module is taken apart, with what sets its state where that is not its own; None for what goes its own way.

    That is what is no module, and a module whose class says itself how it is pickled.
    """
    nn = sys.modules.get("torch.nn")
    if nn is None or not isinstance(one, nn.Module):
        return None
    kind = type(one)
    if kind.__module__ == _MADE_BY and sys.modules[_MADE_BY].is_parametrized(one):
        return _reduce_parametrized(one)
    if kind.__setstate__ is not nn.Module.__setstate__ or kind in copyreg.dispatch_table:
        return None
    new_object = copyreg.__newobj__  # type: ignore[attr-defined]
    match one.__reduce_ex__(pickle.HIGHEST_PROTOCOL):
        case (made_by, (made,), dict() as state, None, None) if (made_by, made) == (new_object, kind):
            if vars(nn.Module()).keys() <= state.keys():
                return new_object, (kind,), state, None, None, set_attributes
    return None


def _reduce_parametrized(module: Any) -> tuple[Any, ...]:
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
