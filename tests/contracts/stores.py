"""The stores that pass one contract, each with what its tests need to look inside."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from snapshot import LocalStore, Store, StoredSnapshot, s3_store
from snapshot.s3_client import S3Client, S3Options
from snapshot.s3_store import S3Store
from tests.s3_server import S3Server, rclone


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


class S3Rig:
    def __init__(self, server: S3Server, scratch: Path) -> None:
        options = S3Options(endpoint_url=server.endpoint)
        self.store = S3Store("s3://bucket/pre fix", options)
        self._client = S3Client("bucket", options)
        self._scratch = LocalStore(scratch)

    def folder(self, stored: StoredSnapshot) -> Path:
        pulled = self.store.pull(stored.name, stored.digest, into=self._scratch).finish()
        return self._scratch.folder(pulled)

    def blobs(self) -> set[str]:
        return {digest for digest, _ in self._client.objects(self.store.address.key("blobs", ""))}


@contextmanager
def _s3(tmp_path: Path) -> Iterator[Rig]:
    with rclone(tmp_path, "bucket") as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        for name in ("AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        patch.setattr(s3_store, "_KEPT_FOR_S", -3600.0)
        yield S3Rig(server, tmp_path / "pulled")


# By name: how to make a rig of each store, empty, for the time of a test.
STORES: dict[str, Callable[[Path], AbstractContextManager[Rig]]] = {"folder": _local, "s3": _s3}
