"""Files beside the code: those that are asked for, and those that the code names and nobody asked for.

They lie beside the code as they do at home: by the folder of the function's file, and within a local package by that
package, wherever it is imported from.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from types import CodeType
from typing import Final

from faas.bundle import imports
from faas.bundle.errors import Unbundleable
from faas.bundle.manifest import CODE
from faas.bundle.reached import Module

_PATTERN: Final = re.compile(r"(\*\*/)?[^/*?\[]*\*(\.\w+)+")
"""What looks for files by their ending, as `glob` takes it."""
_WHERE_IT_IS: Final = ("__file__", "__path__", "files")
_DEEPEST: Final = 4
"""How many names of folders code puts together to one of a file."""


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
    named = [part for part in Path(pattern).parts if part.startswith(".")]

    @functools.cache
    def is_left_out(place: Path) -> bool:
        """Tell whether a folder is, or lies in, one of what is made here: an environment, bytecode, a hidden one."""
        if place == base:
            return False
        hidden = place.name.startswith(".") and not any(fnmatchcase(place.name, one) for one in named)
        return hidden or place.name == "__pycache__" or (place / "pyvenv.cfg").is_file() or is_left_out(place.parent)

    path = PurePosixPath(pattern)
    folders = [base / pattern]
    if path.name == "**":
        folders = [base] if str(path.parent) == "." else list(base.glob(str(path.parent)))
    found = [one for folder in folders if folder.is_dir() for one in _below(folder, is_left_out)]
    return sorted(one for one in found or base.glob(pattern) if not is_left_out(one) and one.is_file())


def _below(folder: Path, is_left_out: Callable[[Path], bool]) -> Iterator[Path]:
    """Give what lies below a folder. Links to folders are followed, but none back to where it leads from."""
    for here, folders, files in os.walk(folder, followlinks=True):
        place = Path(here)
        way = {place.resolve(), *(above.resolve() for above in place.parents if above.is_relative_to(folder))}
        kept = (name for name in folders if not is_left_out(place / name) and (place / name).resolve() not in way)
        folders[:] = sorted(kept)
        yield from (place / name for name in files)


def notes(local: Iterable[Module], folder: Path | None, files: Mapping[str, object]) -> list[str]:
    """Return what to tell people: files beside the code that it names, and that do not travel."""
    missing: dict[str, tuple[str, str]] = {}
    for module in local:
        if module.code is None:
            continue
        named = _Named(module.code)
        for place, above in _places(module, folder):
            for name, found in named.below(place):
                if any(f"{CODE}/{above / path}" not in files for path in found):
                    missing.setdefault(str(above / name), (module.path, name))
    return [
        f"{path} names {text!r}, which lies beside it and does not travel: include={goes_to!r}"
        for goes_to, (path, text) in sorted(missing.items())
    ]


def _places(module: Module, folder: Path | None) -> Iterator[tuple[Path, PurePosixPath]]:
    """Give the folders that names of files may be relative to, each with where in the bundle what lies in it goes."""
    path = PurePosixPath(module.path)
    yield module.file.parent, path.parent
    if folder is not None:
        yield folder, PurePosixPath()
    if module.file.parts[-len(path.parts) :] == path.parts:
        yield module.file.parents[len(path.parts) - 1], PurePosixPath()


class _Named:
    """The files that code names by its texts: `labels.txt`, `data` and `labels.txt` or `*.txt`, those of `pkg.data`."""

    def __init__(self, code: CodeType) -> None:
        texts = (text.removeprefix("./").lstrip("/") for text in imports.texts(code) if 0 < len(text) < 200)
        plain = {text for text in texts if not text.startswith((".", "~")) and not {"\n", "\0"} & set(text)}
        packages = {text.replace(".", "/") for text in plain if text.replace(".", "").isidentifier()}
        self._texts = sorted((plain | packages) - {""})
        self._knows_where_it_is = not imports.used(code).isdisjoint(_WHERE_IT_IS)

    def below(self, folder: Path, within: str = "", depth: int = 0) -> Iterator[tuple[str, list[str]]]:
        """Give what is named in a folder, each with the files that it stands for, by their paths from there."""
        try:
            there = set(os.listdir(folder / within))
        except OSError:
            return
        for text in self._texts:
            name = f"{within}/{text}" if within else text
            if text.partition("/")[0] in there and ".." not in text.split("/"):
                if (folder / name).is_file():
                    yield name, [name]
                elif depth < _DEEPEST and (folder / name).is_dir():
                    yield from list(self.below(folder, name, depth + 1)) or self._all_in(folder, name)
            elif within and _PATTERN.fullmatch(text):
                found = [str(path.relative_to(folder)) for path in (folder / within).glob(text) if path.is_file()]
                yield from [(name, found)] if found else []

    def _all_in(self, folder: Path, name: str) -> Iterator[tuple[str, list[str]]]:
        """Give a folder of data whose files code may list, since it knows where it lies itself."""
        found = [path.name for path in (folder / name).iterdir() if path.is_file()]
        if self._knows_where_it_is and found and not any(one.endswith(".py") for one in found):
            yield name, [f"{name}/{one}" for one in found]
