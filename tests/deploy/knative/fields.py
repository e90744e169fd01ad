"""Who set which field: server-side apply as the API server does it, on plain documents.

Each manager owns paths. An apply sets its paths, gives up those it no longer names (a field that nobody owns then
goes), and conflicts where it would change what another manager owns, unless forced. Lists are one field, but those that
the schema has merge by key. The status and the object's own metadata are nobody's here.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

from .schema import SERVICE, below, merge_key

Path = tuple[Any, ...]
_IDENTITY = {"name", "namespace", "resourceVersion", "uid", "generation", "creationTimestamp", "managedFields"}
_ABSENT = object()


class Held(Exception):
    """Others own fields that an apply would change: `by` is (manager, path) of each."""

    def __init__(self, by: list[tuple[str, Path]]) -> None:
        super().__init__(by)
        self.by = by


@dataclass
class Owners:
    """The managers of one object."""

    paths: dict[str, set[Path]] = field(default_factory=dict)

    def apply(self, live: dict[str, Any], body: dict[str, Any], manager: str, *, force: bool) -> dict[str, Any]:
        """`live` after `manager` applied `body`; these owners are changed with it."""
        wanted = leaves(body)
        held = [
            (other, path)
            for other, paths in self.paths.items()
            if other != manager
            for path in sorted(paths & wanted.keys(), key=str)
            if get(live, path) != wanted[path]
        ]
        if held and not force:
            raise Held(held)
        for other, path in held:
            self.paths[other].discard(path)
        result = copy.deepcopy(live)
        others = {path for other, paths in self.paths.items() if other != manager for path in paths}
        for path in self.paths.get(manager, set()) - wanted.keys() - others:
            _remove(result, path)
        for path, value in wanted.items():
            _set(result, path, copy.deepcopy(value))
        self.paths[manager] = set(wanted)
        return result

    def note_update(self, before: dict[str, Any], after: dict[str, Any], manager: str) -> None:
        """`manager` changed `before` into `after` by other means: what differs is its own now, and no other's."""
        old, new = leaves(before), leaves(after)
        changed = {path for path in new if new[path] != old.get(path, _ABSENT)}
        gone = old.keys() - new.keys()
        for other in self.paths:
            if other != manager:
                self.paths[other] -= changed | gone
        self.paths[manager] = (self.paths.get(manager, set()) | changed) - gone


def leaves(document: dict[str, Any]) -> dict[Path, Any]:
    """The paths of all that an object says of itself, but status and identity."""
    found: dict[Path, Any] = {}
    for key, value in document.items():
        if key == "metadata":
            found |= _leaves({k: v for k, v in value.items() if k not in _IDENTITY}, ("metadata",), "free")
        elif key not in ("status", "apiVersion", "kind"):
            found |= _leaves(value, (key,), below(SERVICE, key) if document.get("kind") == "Service" else "free")
    return found


def _leaves(value: Any, path: Path, schema: Any) -> dict[Path, Any]:
    if isinstance(value, dict) and value:
        found: dict[Path, Any] = {}
        for key, item in value.items():
            found |= _leaves(item, (*path, key), below(schema, key))
        return found
    key = merge_key(schema)
    if isinstance(value, list) and key is not None:
        return {(*path, (key, item[key])): item for item in value}
    return {path: value}


def get(document: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, tuple):
            document = next((item for item in document or [] if item.get(step[0]) == step[1]), _ABSENT)
        elif isinstance(document, dict):
            document = document.get(step, _ABSENT)
        else:
            return _ABSENT
        if document is _ABSENT:
            return _ABSENT
    return document


def _set(document: Any, path: Path, value: Any) -> None:
    *parents, last = path
    for i, step in enumerate(parents):
        following = path[i + 1]
        document = document.setdefault(step, [] if isinstance(following, tuple) else {})
    if isinstance(last, tuple):
        for i, item in enumerate(document):
            if item.get(last[0]) == last[1]:
                document[i] = value
                return
        document.append(value)
    else:
        document[last] = value


def _remove(document: Any, path: Path) -> None:
    *parents, last = path
    for step in parents:
        document = document.get(step, {})
    if isinstance(last, tuple):
        document[:] = [item for item in document if item.get(last[0]) != last[1]]
    else:
        document.pop(last, None)


def dotted(path: Path) -> str:
    """A path as the API server writes it in the cause of a conflict."""
    return "".join(f'[{step[0]}="{step[1]}"]' if isinstance(step, tuple) else f".{step}" for step in path)
