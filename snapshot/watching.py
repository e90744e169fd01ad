"""Which tensors a graph may be given before they have arrived.

Rebuilding a graph puts tensors into places; most of it never looks into them. Nothing keeps a class or function that
the skeleton names from doing so, though, and what it read too early would be wrong without a word. So tensors are
given out early only as long as everything that was named is known not to look.
"""

import collections
import copyreg
from collections.abc import Callable

from snapshot.reducers import find_reducer, set_attributes

_INERT_MODULES = {"snapshot.arrays", "snapshot.tensors", "torch.nn.functional", "torch._C._nn"}
_INERT_TYPES = {"torch.device", "torch.Size", "torch.dtype", "torch.layout", "torch.memory_format"}
# What makes an instance, takes one apart, and is asked of one that is a key.
_OF_OBJECT = ("__new__", "__reduce_ex__", "__reduce__", "__hash__")
_INERT: tuple[object, ...] = (
    object,
    collections.OrderedDict,
    collections.defaultdict,
    copyreg._reconstructor,  # type: ignore[attr-defined]  # what old-style reductions name
    set_attributes,
)


class Watching:
    """Follows a graph that is rebuilt. `wait` returns when the stored tensor of a number is here."""

    def __init__(self, wait: Callable[[int], None]) -> None:
        self._wait = wait
        self._early: set[int] = set()
        self._is_inert = True

    def named(self, found: object) -> None:
        """The skeleton names a class, a function or another object of a module."""
        if self._is_inert and not is_inert(found):
            self._is_inert = False
            for number in sorted(self._early):
                self._wait(number)

    def taken(self, number: int) -> None:
        """A stored tensor is about to be given to the graph."""
        if self._is_inert:
            self._early.add(number)
        else:
            self._wait(number)


def is_inert(found: object) -> bool:
    """Whether what a skeleton names surely looks into no tensor that a graph's rebuilding hands to it."""
    if isinstance(found, type):
        return _is_inert_class(found)
    is_known = any(found is one for one in _INERT) or getattr(found, "__module__", None) in _INERT_MODULES
    return is_known or not callable(found)


def _is_inert_class(kind: type) -> bool:
    """Whether instances are made and filled by pickle alone, without any code of the class's own."""
    if kind in _INERT or f"{kind.__module__}.{kind.__qualname__}" in _INERT_TYPES:
        return True
    fills = getattr(kind, "__setstate__", None)
    return (
        all(getattr(kind, name) is getattr(object, name) for name in _OF_OBJECT)
        and (fills is None or getattr(fills, "__module__", "").startswith("torch.nn."))
        and not any("__slots__" in vars(base) for base in kind.__mro__[:-1])
        and kind not in copyreg.dispatch_table
        and find_reducer(kind, {}) is None
    )
