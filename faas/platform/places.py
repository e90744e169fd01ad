"""Where bundles are: a folder, or a prefix in S3. Each can be looked at, copied from, and waited on for changes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from faas import s3
from faas.errors import SettingError
from snapshot.s3_address import S3Address, is_s3

POLL_S = 5.0
"""How often S3 is listed: it does not report changes."""


class Place(Protocol):
    """A place of bundles. `look` and `copy` take their time: call them on a thread."""

    def look(self) -> dict[str, str]:
        """Return the bundles' names; what stands beside a name changes with any file of it.

        Raises OSError, SnapshotError.
        """
        ...

    def copy(self, name: str, folder: Path) -> None:
        """Copy a bundle's files into a folder. Raises OSError, SnapshotError."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Yield once at first, and whenever something may have changed."""
        ...


def find(text: str) -> Place:
    """Return the place that a user names.

    Raises:
        SettingError: there is no such folder, or what S3 needs is not installed.
        BadAddressError: it is no address in S3.
    """
    if is_s3(text):
        return Prefix(S3Address.parse(text))
    root = Path(text).absolute()
    if not root.is_dir():
        raise SettingError(f"--functions {text}: there is no such folder; make it, or give s3://bucket/prefix")
    return Folder(root)


class Folder:
    """A folder with a folder for each bundle."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    def look(self) -> dict[str, str]:
        """See `Place`."""
        found = [path for path in self._root.iterdir() if not path.name.startswith(".") and path.is_dir()]
        return {path.name: _signature(path) for path in sorted(found)}

    def copy(self, name: str, folder: Path) -> None:
        """See `Place`."""
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(self._root / name, folder, ignore=ignored, dirs_exist_ok=True)

    async def changes(self) -> AsyncIterator[None]:
        """See `Place`."""
        import watchfiles  # nothing to a platform without such a place

        async with contextlib.aclosing(watchfiles.awatch(self._root, ignore_permission_denied=True)) as found:
            next_ones = asyncio.ensure_future(anext(found))
            try:
                await asyncio.sleep(0)  # the watch is set up by its first step
                yield
                while await next_ones:
                    next_ones = asyncio.ensure_future(anext(found))
                    yield
            finally:
                next_ones.cancel()
                await asyncio.gather(next_ones, return_exceptions=True)


def _signature(folder: Path) -> str:
    """Return the names, sizes and times of a folder's files; links are followed, as volumes of Kubernetes need it."""
    listed = []
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
        for name in files:
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile: there will be another change
                stat = os.stat(os.path.join(parent, name))
                listed.append(f"{parent}/{name} {stat.st_size} {stat.st_mtime_ns}")
    return "\n".join(sorted(listed))


class Prefix:
    """A prefix in S3: the first part of what follows it in a key is a bundle's name."""

    def __init__(self, address: S3Address, poll_s: float = POLL_S) -> None:
        self._address = address
        self._poll_s = poll_s
        self._client = s3.client(address.bucket)

    def __str__(self) -> str:
        return str(self._address)

    def look(self) -> dict[str, str]:
        """See `Place`."""
        found: dict[str, list[str]] = {}
        for key, etag in self._client.etags(self._address.key("")):
            name, slash, rest = key.partition("/")
            if slash and rest:
                found.setdefault(name, []).append(f"{rest} {etag}")
        return {name: "\n".join(sorted(files)) for name, files in sorted(found.items())}

    def copy(self, name: str, folder: Path) -> None:
        """See `Place`."""
        prefix = self._address.key(name, "")
        for key, _ in self._client.etags(prefix):
            path = folder / key
            if not path.resolve().is_relative_to(folder.resolve()):
                raise OSError(f"the key {prefix}{key} leads out of its bundle")
            path.parent.mkdir(parents=True, exist_ok=True)
            self._client.download(prefix + key, path)

    async def changes(self) -> AsyncIterator[None]:
        """See `Place`."""
        while True:
            yield
            await asyncio.sleep(self._poll_s)
