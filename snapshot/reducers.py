"""How objects that pickle refuses are taken apart: a registry that a user extends in three lines.

    @snapshot.reducer(Client)
    def reduce_client(client: Client) -> tuple:
        return Client, (client.url,)

A reducer returns a function and its arguments; thawing calls the one with the other. The arguments are frozen like
everything else: tensors and arrays among them come back mapped, `KeptFiles` come back as the path of a folder.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from snapshot.manifest import is_inside

Reduced = tuple[Callable[..., object], tuple[object, ...]]
Reducer = Callable[[Any], Reduced]
_R = TypeVar("_R", bound=Reducer)

_reducers: dict[str, Reducer] = {}


@dataclass(frozen=True, eq=False)
class KeptFiles:
    """Files that a snapshot keeps as they are, for runtimes that open a path.

    files: path inside the kept folder -> the file to copy, or its content. Thaws as the Path of the folder.
    """

    files: Mapping[str, Path | bytes]

    def __post_init__(self) -> None:
        if outside := [name for name in self.files if not is_inside(name)]:
            raise ValueError(f"no plain path inside the kept folder: {', '.join(map(repr, outside))}")


def reducer(kind: type | str) -> Callable[[_R], _R]:
    """Register the decorated function for `kind` and its subclasses; the nearest registered class decides.

    A class of a library that should not be imported for this is given as "module.Class", where it is defined.
    """
    name = kind if isinstance(kind, str) else _qualified(kind)

    def register(function: _R) -> _R:
        _reducers[name] = function
        return function

    return register


def find_reducer(kind: type, built_in: Mapping[str, Reducer]) -> Reducer | None:
    """The reducer for objects of class `kind`, if any; what a user registered goes before what is `built_in`."""
    names = [_qualified(base) for base in kind.__mro__]
    return next((table[name] for table in (_reducers, built_in) for name in names if name in table), None)


def _qualified(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def kept_folder(number: int) -> str:
    """Where in a snapshot the files of one `KeptFiles` lie; also what the skeleton refers to them by."""
    return f"files/{number}"


def set_attributes(one: object, attributes: Mapping[str, object]) -> None:
    """What skeletons name to give an object its attributes back, past a `__setstate__` that means other things."""
    vars(one).update(attributes)


_num_threads: ContextVar[int | None] = ContextVar("num_threads", default=None)


@contextmanager
def threads(num_threads: int | None) -> Iterator[None]:
    """While it lasts, rebuilt runtimes that were frozen with no thread count of their own get `num_threads`."""
    token = _num_threads.set(num_threads)
    try:
        yield
    finally:
        _num_threads.reset(token)


def threads_for(frozen: int) -> int:
    """The thread count for a runtime that was frozen with `frozen`, where 0 means that it chose for itself."""
    return frozen or _num_threads.get() or 0
