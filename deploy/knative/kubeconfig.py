"""The kubeconfig files that a user names, as one, by kubectl's rules.

The first file to say something is heeded, of the current context too; a path is relative to the file that it stands in;
files that are missing or empty are passed over. The `kubernetes` package goes by other rules where there are several.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

_LISTS = {"clusters": "cluster", "contexts": "context", "users": "user"}
_PATHS = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}


def merged(files: Iterable[Path]) -> dict[str, Any]:
    """What the files say together; `current-context` is empty where none names one.

    Raises:
        OSError: a file cannot be read.
        yaml.YAMLError, ValueError: it is no kubeconfig.
    """
    import yaml  # an extra, as the package is

    found: dict[str, Any] = {"current-context": "", **{kind: [] for kind in _LISTS}}
    for path in files:
        with path.open() as file:
            said = yaml.safe_load(file)
        if said is None:
            continue
        if not isinstance(said, dict):
            raise ValueError(f"{path} is no mapping")
        found["current-context"] = found["current-context"] or said.get("current-context") or ""
        for kind, inner in _LISTS.items():
            known = {one["name"] for one in found[kind]}
            new = [one for one in _entries(said, kind, path) if one["name"] not in known]
            found[kind] += [{**one, inner: _resolved(one.get(inner) or {}, inner, path)} for one in new]
    return found


def entry(found: dict[str, Any], kind: str, name: str | None) -> dict[str, Any]:
    """What `found` says of one of its `clusters`, `contexts` or `users`; nothing where it has none of that name."""
    inner = _LISTS[kind]
    return next((dict(one[inner]) for one in found[kind] if one["name"] == name), {})


def _entries(said: dict[str, Any], kind: str, path: Path) -> list[dict[str, Any]]:
    entries = said.get(kind) or []
    if not isinstance(entries, list) or not all(isinstance(one, dict) and "name" in one for one in entries):
        raise ValueError(f"{kind} of {path} is no list of what has a name")
    return entries


def _resolved(said: dict[str, Any], kind: str, path: Path) -> dict[str, Any]:
    """The same, with the paths in it absolute; a program without a folder is one of the PATH."""
    folder = path.absolute().parent
    resolved = dict(said)
    for key in _PATHS.get(kind, ()):
        if said.get(key):
            resolved[key] = str(folder / said[key])
    plugin = said.get("exec") if kind == "user" else None
    if isinstance(plugin, dict) and "/" in str(plugin.get("command")):
        resolved["exec"] = {**plugin, "command": str(folder / plugin["command"])}
    return resolved
