"""Which of the loaded modules are the user's own, and which were installed."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import ModuleType

OURS = ("faas", "snapshot", "warmpool", "deploy", "loadgen")
"""Our own packages, but for the ready handlers, which are written as users write theirs."""

_INSTALL_FOLDERS = ("/site-packages/", "/dist-packages/")
HOME = Path(__file__).absolute().parents[1]
"""The folder that our packages lie in."""


def of_user() -> list[ModuleType]:
    """Return the loaded modules whose files lie neither in the installation nor in our own packages."""
    return [m for m in list(sys.modules.values()) if isinstance(m, ModuleType) and is_users(m)]


def installed() -> list[str]:
    """Return the names of the loaded modules that are installed or of the standard library, ours included.

    These are what a zygote can import for a function, in the order in which they were begun to load; `__main__` and the
    user's own modules are not among them. Nor is the second name of a module (`os.path`): a library that gives one to a
    module of its own may only do so in passing, and there is then nothing of that name to import.
    """
    found = ((n, m) for n, m in list(sys.modules.items()) if isinstance(m, ModuleType) and not is_users(m))
    return [n for n, m in found if _importable(n) and not _is_second_name(n, m)]


def is_users(module: ModuleType) -> bool:
    """Tell whether a module was written by the user: it has a file, and the file lies in no installation."""
    return is_users_file(getattr(module, "__file__", None))


def is_users_file(file: object) -> bool:
    """Tell whether a module of this `__file__` was written by the user."""
    if not isinstance(file, str) or not file.startswith("/"):
        return False
    return not file.startswith(_installed_below()) and not any(folder in file for folder in _INSTALL_FOLDERS)


def _is_second_name(name: str, module: ModuleType) -> bool:
    spec = getattr(module, "__spec__", None)
    return spec is None or (spec.name != name and sys.modules.get(spec.name) is module)


def _importable(name: str) -> bool:
    top = name.partition(".")[0]
    if top == "__main__" or top.startswith("__editable__"):  # how pip has the packages of a checkout found, here alone
        return False
    return all(part.isidentifier() for part in name.split("."))


@cache
def _installed_below() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    places = {paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")} | {str(HOME / name) for name in OURS}
    return tuple(f"{Path(place).absolute()}/" for place in places.union(installed_aside()))


def installed_aside() -> list[str]:
    """Return the folders of `PYTHONPATH` that pip has installed into (`--target`), as those of an image are."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [place for place in named if place and next(Path(place).glob("*.dist-info"), None) is not None]
