"""Files beside the code: those that are asked for, and those that the code names and nobody asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from faas.bundle import imports
from faas.bundle.errors import Unbundleable
from faas.bundle.manifest import CODE
from faas.bundle.reached import Module


def matching(folder: Path | None, pattern: str) -> list[Path]:
    """Return the files below the folder of the function's file that a pattern means, one or more.

    Raises:
        Unbundleable: there are none, or the pattern leads out of the folder.
    """
    if folder is None or Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        raise Unbundleable(
            f"include={pattern!r} is not below the folder of the function's file", "name files by paths relative to it"
        )
    if (folder / pattern).is_dir():
        pattern = f"{pattern.rstrip('/')}/**/*"
    found = [path for path in folder.glob(pattern) if path.is_file() and "__pycache__" not in path.parts]
    if not found:
        raise Unbundleable(f"include={pattern!r} matches no file in {folder}", "correct it, or leave it out")
    return sorted(found)


def notes(local: Iterable[Module], folder: Path | None, files: Mapping[str, object]) -> list[str]:
    """Return what to tell people: files beside the code that it names, and that do not travel."""
    named: dict[str, str] = {}
    for module in local:
        for text in imports.texts(module.code) if module.code is not None else ():
            if 0 < len(text) < 200 and "\n" not in text and not text.startswith(("/", ".", "~")):
                named.setdefault(text, module.path)
    return [
        f"{path} names {text!r}, which lies beside it and does not travel: include={text!r}"
        for text, path in sorted(named.items())
        if folder is not None and "\0" not in text and (folder / text).is_file() and f"{CODE}/{text}" not in files
    ]
