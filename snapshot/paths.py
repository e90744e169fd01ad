"""Names for the parts of an object graph: the attribute path from its root."""

from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any, NamedTuple

ROOT = "state"
_MAX_OBJECTS = 1_000_000
_VALUES = (str, bytes, int, float, complex, bool, type(None))
_ATOMS = (*_VALUES, type)
_MODULE_TABLES = ("_parameters", "_buffers", "_modules")


class Step(NamedTuple):
    """One step of a path: an attribute, or the key or index of an item."""

    key: object
    is_attribute: bool


Trail = tuple[Step, ...]
Part = tuple[Step, object]


def dotted(path: Trail) -> str:
    """A path as tensor files spell it: `model.layers.0.weight`."""
    return ".".join(str(step.key) if isinstance(step.key, _ATOMS) else _short(step.key) for step in path)


def as_code(path: Trail) -> str:
    """A path as Python spells it: `state['model'].layers`."""
    return ROOT + "".join(f".{step.key}" if step.is_attribute else f"[{_short(step.key)}]" for step in path)


def _short(key: object) -> str:
    text = repr(key) if isinstance(key, _ATOMS) else f"<{type(key).__name__}>"
    return text if len(text) <= 80 else text[:77] + "..."


def find(root: object, wanted: Iterable[object]) -> dict[int, Trail]:
    """The path at which each of `wanted` is first met, by its id; depth first, in the order of the graph.

    Looks and does not touch: reads containers and instance dictionaries, and calls nothing of the user's. What can
    only be reached by calling something has no path.
    """
    ids = {id(one) for one in wanted}
    found: dict[int, Trail] = {}
    for path, one in walk(root, lambda one: id(one) in ids) if ids else ():
        if id(one) in ids:
            found[id(one)] = path
            if len(found) == len(ids):
                break
    return found


def walk(root: object, is_leaf: Callable[[object], bool]) -> Iterator[tuple[Trail, object]]:
    """Every object that `find` would meet, once, with its path; what lies in a leaf is left out."""
    seen: set[int] = set()
    stack: list[tuple[Trail, object]] = [((), root)]
    while stack and len(seen) < _MAX_OBJECTS:
        path, one = stack.pop()
        if id(one) in seen or isinstance(one, _ATOMS):
            continue
        seen.add(id(one))
        yield path, one
        if not is_leaf(one):
            stack.extend(((*path, step), part) for step, part in reversed(list(_visible_parts(one))))


def _visible_parts(one: object) -> Iterator[Part]:
    yield from _items(one)
    try:
        attributes = object.__getattribute__(one, "__dict__")
    except AttributeError:
        attributes = {}
    if isinstance(one, FunctionType) or not isinstance(attributes, dict):
        return
    is_module = all(table in attributes for table in _MODULE_TABLES)  # of torch: leave its tables out of the names
    for name, value in list(attributes.items()):
        if is_module and name in _MODULE_TABLES and isinstance(value, dict):
            yield from ((Step(key, True), part) for key, part in list(value.items()))
        else:
            yield Step(name, True), value
    for kind in type(one).__mro__:
        for name, slot in list(vars(kind).items()):
            if isinstance(slot, MemberDescriptorType) and kind.__module__ != "builtins":
                try:
                    yield Step(name, True), slot.__get__(one)
                except AttributeError:
                    continue


def _items(one: object) -> Iterator[Part]:
    if isinstance(one, dict):
        yield from ((Step(key, False), value) for key, value in list(one.items()))
    elif isinstance(one, list | tuple):
        yield from ((Step(index, False), value) for index, value in enumerate(one))
    elif isinstance(one, set | frozenset):
        yield from ((Step(value, False), value) for value in one)


class Blame:
    """Finds the deepest part of a graph that cannot be pickled though all of its own parts can.

    attempt: pickles an object and returns what that raised
    take_apart: reduces an object as pickling would, and raises what that raises
    """

    def __init__(self, attempt: Callable[[object], Exception | None], take_apart: Callable[[object], object]) -> None:
        self._attempt = attempt
        self._take_apart = take_apart
        self._seen: dict[int, object] = {}  # by id; the objects too, so that no id is used twice

    def find(self, root: object) -> tuple[Trail, Exception] | None:
        """The path of that part and what it raised; None when no single part is to blame."""
        error = self._attempt(root)
        try:
            return self._find((), root, error) if error else None
        except RecursionError:  # the part to blame lies deeper than this walk can go
            return None

    def _find(self, path: Trail, one: object, error: Exception) -> tuple[Trail, Exception] | None:
        self._seen[id(one)] = one
        own_fault = True
        for step, part in self._parts(one):
            if isinstance(part, _VALUES) or not (failed := self._attempt(part)):
                continue
            own_fault = False
            if id(part) not in self._seen and (found := self._find((*path, step), part, failed)):
                return found
        return (path, error) if own_fault else None

    def _parts(self, one: object) -> Iterator[Part]:
        """What pickle would go on to pickle."""
        if type(one) in (dict, list, tuple, set, frozenset):
            yield from _items(one)
        elif isinstance(one, FunctionType):
            yield from _function_parts(one)
        elif isinstance(one, MethodType):
            yield Step("__self__", True), one.__self__
        else:
            try:
                reduced = self._take_apart(one)
            except Exception:
                return  # its own fault, as the attempt on it has shown
            if isinstance(reduced, tuple):
                yield from _reduced_parts(reduced)


def _function_parts(function: FunctionType) -> Iterator[Part]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield Step(f"<closure {name}>", True), cell.cell_contents
        except ValueError:  # a name not bound yet
            continue
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield Step(f"<global {name}>", True), function.__globals__[name]
    for index, default in enumerate(function.__defaults__ or ()):
        yield Step(f"<default {index}>", True), default


def _reduced_parts(reduced: tuple[Any, ...]) -> Iterator[Part]:
    padded: tuple[Any, ...] = (*reduced, None, None, None, None)
    _, arguments, state, list_items, dict_items, *_ = padded
    for table in state if isinstance(state, tuple) else (state,):
        if isinstance(table, dict):
            yield from ((Step(name, isinstance(name, str)), value) for name, value in table.items())
        else:
            yield Step("<state>", True), table
    yield from ((Step(index, False), value) for index, value in enumerate(list_items or ()))
    yield from ((Step(key, False), value) for key, value in dict_items or ())
    yield from ((Step(f"<argument {index}>", True), value) for index, value in enumerate(arguments or ()))
