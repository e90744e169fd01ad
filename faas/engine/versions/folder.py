"""Versions in a folder: each child whose name is a number, once the snapshot in it is whole.

BASE/1/manifest.json ...     version 1: a snapshot's folder, or a link to one
BASE/00002/...               version 2
BASE/versions.json           what all instances follow
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from faas.engine.versions import plan
from faas.engine.versions.policies import named
from faas.engine.versions.source import Look, SourceError
from snapshot.manifest import MANIFEST_FILE


class Folder:
    """A source that is a folder."""

    def __init__(self, base: str | Path) -> None:
        self.base = Path(base).absolute()

    @property
    def title(self) -> str:
        """See `Source`."""
        return str(self.base)

    def look(self) -> Look:
        """See `Source`."""
        try:
            children = [child.name for child in self.base.iterdir()]
            found = named(name for name in children if (self.base / name / MANIFEST_FILE).is_file())
            places = {number: str((self.base / name).resolve()) for number, name in found.names.items()}
        except OSError as error:
            raise SourceError(f"{error.filename or self.base} cannot be looked at: {error.strerror}") from None
        return Look(places, self._file(), found.warnings)

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

    def _file(self) -> bytes | None:
        try:
            return (self.base / plan.FILE).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceError(f"{self.base / plan.FILE} cannot be read: {error.strerror}") from None
