"""What a platform remembers of its functions: one JSON file each, replaced atomically, read when it starts again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from faas.errors import PlatformError
from faas.names import is_label
from faas.platform.revisions import Revisions, renamed

FORMAT = 1


class _File(msgspec.Struct, frozen=True):
    """`ids` are those of the revisions at the time of writing, in order: what their shares and tags lead to."""

    format: int
    revisions: Revisions
    ids: tuple[str, ...] = ()


class State:
    """The files of a folder, `NAME.json`. One process alone writes there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Iterator[Revisions | str]:
        """Yield what is remembered of each function, or in words why it cannot be read, by name."""
        for leftover in self._folder.glob("*.tmp"):
            leftover.unlink(missing_ok=True)
        for path in sorted(self._folder.glob("*.json")):
            try:
                file = msgspec.json.decode(path.read_bytes(), type=_File)
            except (OSError, msgspec.MsgspecError) as error:
                yield f"{path} cannot be read, and its function is left out: {error}"
                continue
            if file.format != FORMAT or file.revisions.name != path.stem:
                yield f"{path} is not what this version writes there, and its function is left out"
            else:
                yield renamed(file.revisions, file.ids)

    def write(self, revisions: Revisions) -> None:
        """Remember a function as it is now; it is on the disk when this returns.

        Raises:
            PlatformError: the folder cannot be written.
        """
        path = self._path(revisions.name)
        temporary = path.with_suffix(".tmp")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                ids = tuple(one.id for one in revisions.deployments)
                file.write(msgspec.json.encode(_File(FORMAT, revisions, ids)))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            self._sync()
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise PlatformError(f"cannot write {path}: {error.strerror}; what was asked for is not done") from None

    def remove(self, name: str) -> None:
        """Forget a function.

        Raises:
            PlatformError: the folder cannot be written.
        """
        try:
            self._path(name).unlink(missing_ok=True)
            self._sync()
        except OSError as error:
            raise PlatformError(f"cannot remove {self._path(name)}: {error.strerror}") from None

    def _path(self, name: str) -> Path:
        assert is_label(name), name
        return self._folder / f"{name}.json"

    def _sync(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
