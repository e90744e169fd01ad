"""What an object of the user's holds, as a digest: whether it was changed in place is told from two of them."""

from __future__ import annotations

import contextlib
import functools
import marshal
import sys
from collections import deque
from collections.abc import Iterator
from types import CellType, FunctionType, MappingProxyType, MemberDescriptorType, MethodType, SimpleNamespace
from typing import Any, Final

from blake3 import blake3

from faas import modules

_ATOMS: Final = (type(None), bool, int, float, complex, str, type(...))
_PLAIN: Final = (list, tuple, dict, set, frozenset)
_MANY: Final = 64
"""So many items are written in one go, where they are plain values alone."""
_LAID_OPEN: Final = frozenset({"torch.nn.modules.module.Module", "sklearn.base.BaseEstimator"})
"""Libraries' classes whose objects are looked into: models that a module makes and `setup()` gives their weights."""


class Contents:
    """Digests of what objects hold, which can be compared within this process.

    Looked into are containers, arrays, tensors, torch modules, and objects of the user's own classes, with all that
    they lead to. Everything else is told by which object it is: libraries' objects change for reasons of their own.
    """

    def __init__(self) -> None:
        self._opaque: list[object] = []  # kept, so that no other object gets the id of one

    def of(self, value: object) -> bytes:
        """Return the digest of an object."""
        digest = blake3(max_threads=blake3.AUTO)
        numbers: dict[int, int] = {}
        met: list[object] = []  # kept while ids count, since some of it was made here
        waiting: list[object] = [value]
        while waiting:
            one = waiting.pop()
            if issubclass(type(one), _ATOMS):
                digest.update(f"{type(one).__name__} {one!r};".encode(errors="backslashreplace"))
            elif id(one) in numbers:
                digest.update(f"again {numbers[id(one)]};".encode())
            else:
                numbers[id(one)] = len(numbers)
                met.append(one)
                waiting.extend(reversed(self._look_into(one, digest)))
        return digest.digest()

    def _look_into(self, one: object, digest: blake3) -> list[object]:
        """Return what an object is made of, once the digest has what it is."""
        if (memory := _memory(one)) is not None:
            digest.update(memory[0].encode())
            digest.update(memory[1])
            return []
        parts = _parts(one)
        if parts is None:
            self._opaque.append(one)
            digest.update(f"object {id(one)};".encode())
            return []
        digest.update(f"{type(one).__qualname__} {len(parts)};".encode())
        return parts


def of_function(function: FunctionType) -> list[object]:
    """Return what a function holds beside its code: attributes, defaults, and variables of what encloses it."""
    attributes = {name: one for name, one in vars(function).items() if name != "__wrapped__"}
    return [attributes, function.__defaults__, function.__kwdefaults__, *(function.__closure__ or ())]


def is_users_function(one: object) -> bool:
    """Tell whether something is a function that the user wrote, or what a library's decorator made of one."""
    if type(one) is not FunctionType:
        return False
    home = sys.modules.get(one.__module__)
    return modules.is_users_file(one.__globals__.get("__file__")) or modules.is_users_file(
        getattr(home, "__file__", None)
    )


def slots_of(one: object) -> list[str]:
    """Return the slots of an object, of whichever of its classes, that hold something."""
    return [
        name
        for kind in type(one).__mro__
        for name, member in vars(kind).items()
        if isinstance(member, MemberDescriptorType) and hasattr(one, name)
    ]


def _parts(one: object) -> list[object] | None:
    """Return what an object is made of, None where it is not looked into."""
    if is_users_function(one):
        return of_function(one)  # type: ignore[arg-type]
    if type(one) is MethodType:
        return [one.__self__, one.__func__]
    if type(one) is functools.partial:
        return [one.func, one.args, one.keywords]
    if type(one) is MappingProxyType:
        return [dict(one)]
    if type(one) is CellType:
        return _content(one)
    if _is_array(one):  # of objects: others are memory
        return [one.tolist()]  # type: ignore[attr-defined]
    if type(one) in _PLAIN:
        return [*_items(one)]
    return [*_items(one), *_attributes(one)] if _is_looked_into(type(one)) else None


def _content(cell: CellType) -> list[object]:
    try:
        return [cell.cell_contents]
    except ValueError:  # empty yet
        return []


def _items(one: object) -> Iterator[object]:
    """Return what a container holds, without asking methods of the user's."""
    kinds: tuple[Any, ...] = (dict, list, tuple, deque, set, frozenset)
    kind = next((kind for kind in kinds if issubclass(type(one), kind)), None)
    if kind is dict:
        held: Any = one
        yield from (part for item in dict.items(held) for part in item)
    elif kind in (set, frozenset):
        yield from sorted(kind.__iter__(one), key=_place)
    elif kind is not None:
        yield from kind.__iter__(one)


def _place(held: object) -> str:
    """Return what members of a set are told of in order by."""
    return f"{type(held).__name__} {held!r}" if issubclass(type(held), _ATOMS) else str(id(held))


def _is_looked_into(kind: type) -> bool:
    if kind is SimpleNamespace or kind.__module__ == "collections":
        return True
    if modules.is_users_file(getattr(sys.modules.get(kind.__module__), "__file__", None)):
        return not issubclass(kind, type)
    return any(f"{base.__module__}.{base.__qualname__}" in _LAID_OPEN for base in kind.__mro__)


def _attributes(one: object) -> list[object]:
    """Return the attributes of an object, those in slots too, without asking a `__getattr__` of its."""
    try:
        held: dict[str, object] = object.__getattribute__(one, "__dict__")
    except AttributeError:
        held = {}
    return [dict(held), *(getattr(one, name) for name in slots_of(one))]


def _memory(one: object) -> tuple[str, memoryview | bytes] | None:
    """Return what tells how bytes are to be read, and the bytes, of what is little more than bytes."""
    if issubclass(type(one), bytes | bytearray):
        return f"{type(one).__qualname__} ", memoryview(one)  # type: ignore[arg-type]
    if type(one) in _PLAIN and len(one) >= _MANY:  # type: ignore[arg-type]
        with contextlib.suppress(ValueError):  # it holds others than plain values
            return "plain ", marshal.dumps(one, 2)  # type: ignore[arg-type]
    if _is_array(one):
        array: Any = one
        return None if array.dtype.hasobject else (f"array {array.dtype} {array.shape} ", array.tobytes())
    torch = sys.modules.get("torch")
    if torch is None or not issubclass(type(one), torch.Tensor):
        return None
    tensor: Any = one
    kind = f"tensor {tensor.dtype} {tuple(tensor.shape)} {tensor.requires_grad} "
    try:
        return kind, memoryview(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    except (RuntimeError, TypeError):  # without memory, or in a layout of its own
        return kind, str(None if tensor.is_inference() else tensor._version).encode()


def _is_array(one: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(type(one), numpy.ndarray)
