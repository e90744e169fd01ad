"""Files beside the code: those that are asked for, and those that the code names and nobody asked for.

They lie beside the code as they do at home: by the folder of the function's file, and within a local package by that
package, wherever it is imported from.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from faas.bundle import imports
from faas.bundle.errors import Unbundleable
from faas.bundle.manifest import CODE
from faas.bundle.reached import Module


def matching(folder: Path | None, local: Iterable[Module], pattern: str) -> dict[str, Path]:
    """Return the files, one or more, that a pattern means, by where below `code/` they go.

    It is relative to the folder of the function's file, or to one that a local package is imported from. As in a shell,
    hidden files are meant where the pattern names them alone; virtual environments never are.

    Raises:
        Unbundleable: there are none, or the pattern leads out of the folder.
    """
    packages = _packages(local)
    bases = dict.fromkeys([*([folder] if folder else []), *(package.parent for package in packages)])
    if not bases or Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        raise Unbundleable(
            f"include={pattern!r} is not below the folder of the function's file", "name files by paths relative to it"
        )
    found: dict[str, Path] = {}
    for base in bases:
        for path in _meant(base, pattern):
            package = next((one for one in packages if path.is_relative_to(one)), None)
            found.setdefault(str(path.relative_to(base if package is None else package.parent)), path)
    if not found:
        raise Unbundleable(
            f"include={pattern!r} matches no file in {folder or next(iter(bases))}", "correct it, or leave it out"
        )
    return dict(sorted(found.items()))


def _packages(local: Iterable[Module]) -> list[Path]:
    """Return the folders of the local packages that are in no other."""
    found: dict[Path, None] = {}
    for module in local:
        parts = PurePosixPath(module.path).parts
        if len(parts) > 1 and module.file.parts[-len(parts) :] == parts:
            found[module.file.parents[len(parts) - 2]] = None
    return list(found)


def _meant(base: Path, pattern: str) -> list[Path]:
    if (base / pattern).is_dir():
        pattern = f"{pattern.rstrip('/')}/**"
    if PurePosixPath(pattern).name == "**":  # before Python 3.13 that means folders alone
        pattern += "/*"
    named = [part for part in Path(pattern).parts if part.startswith(".")]

    @functools.cache
    def is_left_out(place: Path) -> bool:
        """Tell whether a folder is, or lies in, one of what is made here: an environment, bytecode, a hidden one."""
        if place == base:
            return False
        hidden = place.name.startswith(".") and not any(fnmatchcase(place.name, one) for one in named)
        return hidden or place.name == "__pycache__" or (place / "pyvenv.cfg").is_file() or is_left_out(place.parent)

    return sorted(path for path in base.glob(pattern) if not is_left_out(path) and path.is_file())


def notes(local: Iterable[Module], folder: Path | None, files: Mapping[str, object]) -> list[str]:
    """Return what to tell people: files beside the code that it names, and that do not travel."""
    missing: dict[tuple[str, str], str] = {}
    for module in local:
        beside = PurePosixPath(module.path).parent
        for text in imports.texts(module.code) if module.code is not None else ():
            if not 0 < len(text) < 200 or text.startswith(("/", ".", "~")) or {"\n", "\0"} & set(text):
                continue
            for place, goes_to in ((module.file.parent, str(beside / text)), (folder, text)):
                if place is not None and (place / text).is_file() and f"{CODE}/{goes_to}" not in files:
                    missing.setdefault((text, goes_to), module.path)
    return [
        f"{path} names {text!r}, which lies beside it and does not travel: include={goes_to!r}"
        for (text, goes_to), path in sorted(missing.items())
    ]
