"""The stores that pass one contract, each with what its tests need to look inside."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from snapshot import LocalStore, Store, StoredSnapshot


class Rig(Protocol):
    """A store, and a way around its interface."""

    @property
    def store(self) -> Store:
        """The store itself."""

    def folder(self, stored: StoredSnapshot) -> Path:
        """A local folder with the whole of what the store holds of a snapshot."""

    def blobs(self) -> set[str]:
        """The content addresses of all files that the store holds."""


class LocalRig:
    def __init__(self, root: Path) -> None:
        self.store = LocalStore(root)

    def folder(self, stored: StoredSnapshot) -> Path:
        return self.store.folder(stored)

    def blobs(self) -> set[str]:
        folder = self.store.blobs.folder
        return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


@contextmanager
def _local(tmp_path: Path) -> Iterator[Rig]:
    yield LocalRig(tmp_path / "store")


# By name: how to make a rig of each store, empty, for the time of a test.
STORES: dict[str, Callable[[Path], AbstractContextManager[Rig]]] = {"folder": _local}
