"""Versions in a folder: each child whose name is a number, once all that the manifest in it names is there.

BASE/1/manifest.json ...     version 1: a snapshot's folder, or a link to one
BASE/00002/...               version 2
BASE/versions.json           what all instances follow
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Hashable
from pathlib import Path

import msgspec

import snapshot
from faas.engine.versions import plan
from faas.engine.versions.policies import named
from faas.engine.versions.source import Look, SourceError
from snapshot.manifest import MANIFEST_FILE


class Folder:
    """A source that is a folder."""

    def __init__(self, base: str | Path) -> None:
        self.base = Path(base).absolute()
        self._whole: set[Path] = set()

    @property
    def title(self) -> str:
        """See `Source`."""
        return str(self.base)

    def look(self) -> Look:
        """See `Source`."""
        try:
            children = [child.name for child in self.base.iterdir()]
            found = named(name for name in children if (self.base / name / MANIFEST_FILE).is_file())
            self._whole &= {self.base / name for name in found.names.values()}
            partial = {number: self._missing_in(self.base / name) for number, name in found.names.items()}
            places = {
                number: str((self.base / name).resolve())
                for number, name in found.names.items()
                if partial[number] is None
            }
            stamps = {number: _stamp(self.base / found.names[number]) for number in places}
        except OSError as error:
            raise SourceError(f"{error.filename or self.base} cannot be looked at: {error.strerror}") from None
        warnings = [f"version {number} is not there as a whole yet: {one}" for number, one in partial.items() if one]
        return Look(places, self._file(), (*found.warnings, *warnings), stamps)

    def write(self, content: bytes) -> None:
        """See `Source`."""
        path = self.base / plan.FILE
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self.base.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise SourceError(f"cannot write {path}: {error.strerror}") from None

    def _missing_in(self, folder: Path) -> str | None:
        """Return what a snapshot still lacks that is being copied into its place; None where it lacks nothing.

        One that was whole stays it, and a link leads to one that is. A manifest that is nothing of the kind is left to
        whoever loads it.
        """
        if folder in self._whole or folder.is_symlink():
            return None
        try:
            manifest = snapshot.read_manifest(folder)
        except snapshot.SnapshotError:
            return None if _is_json((folder / MANIFEST_FILE).read_bytes()) else f"{MANIFEST_FILE} is cut short"
        for record in manifest.all_files:
            if _num_bytes(folder / record.file) < record.num_bytes:
                return f"{record.file} is missing, or short"
        self._whole.add(folder)
        return None

    def _file(self) -> bytes | None:
        try:
            return (self.base / plan.FILE).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceError(f"{self.base / plan.FILE} cannot be read: {error.strerror}") from None


def _stamp(folder: Path) -> Hashable:
    """Return what changes with the files of a snapshot; always the same of a link, which leads to what is finished."""
    if folder.is_symlink():
        return None
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.stat()) for entry in entries]
    return frozenset((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in found)


def _is_json(content: bytes) -> bool:
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _num_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1
