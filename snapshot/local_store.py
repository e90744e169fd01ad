"""A store that is a folder.

    ROOT/NAME/0123456789abcdef/     a snapshot, named by the beginning of its digest
    ROOT/NAME/latest                a symbolic link to one of them, replaced by rename
    ROOT/NAME/.staging-...          being published, or left by a process that was killed; `prune` removes those
    ROOT/NAME/.lock                 held shared while publishing, alone while pruning

A snapshot that is published shares its files with the folder it came from, by hard links where the file system allows.
What is removed while a process maps it lives on for that process.
"""

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from snapshot.errors import FormatVersionError, SnapshotExistsError, SnapshotNotFoundError
from snapshot.manifest import MANIFEST_FILE, SHORT_DIGEST_LENGTH, read_manifest
from snapshot.mapping import opened
from snapshot.staging import STAGING_PREFIX, staged_folder, sync_folder
from snapshot.store import LATEST, StoredSnapshot, check_name, is_name

_FOLDER = re.compile(rf"[0-9a-f]{{{SHORT_DIGEST_LENGTH}}}")
_LISTED = 10


class LocalStore:
    """A `Store` in the folder `root`, which is made when it is first written to."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def publish(self, name: str, folder: Path) -> StoredSnapshot:
        """See `Store.publish`. Raises BadNameError, SnapshotNotFoundError, DamagedError."""
        home = self.root / check_name(name)
        manifest = read_manifest(folder)
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home, fcntl.LOCK_SH):
            target = home / manifest.short_digest
            with contextlib.suppress(SnapshotExistsError), staged_folder(target) as staging:
                _link_or_copy(folder / MANIFEST_FILE, staging / MANIFEST_FILE)
                for record in manifest.all_files:
                    with opened(folder / record.file, record.num_bytes):
                        _link_or_copy(folder / record.file, staging / record.file)
            stored = read_manifest(target)
            if stored.digest != manifest.digest:
                raise SnapshotExistsError(f"{target} holds {stored.digest}, which begins like {manifest.digest}")
            _point_latest(home, target.name)
        return StoredSnapshot(name, manifest.digest, manifest.created_at, is_latest=True, folder=target)

    def find(self, name: str, digest: str | None = None) -> StoredSnapshot:
        """See `Store.find`. Raises DamagedError when the manifest found is damaged."""
        home = self.root / check_name(name)
        latest = _latest(home)
        if digest is None and latest is not None:
            return _stored(name, home / latest, latest)
        history = self.history(name)
        if not history:
            raise SnapshotNotFoundError(f"{self.root} has no snapshot of {name!r}; it has: {_listed(self.names())}")
        found = [stored for stored in history if digest is not None and stored.digest.startswith(digest)]
        if len(found) != 1:
            fault = "several snapshots" if found else "no snapshot"
            among = _listed([stored.folder.name for stored in history])
            raise SnapshotNotFoundError(f"{fault} of {name!r} in {self.root} for {digest or LATEST!r}, among: {among}")
        return found[0]

    def names(self) -> list[str]:
        """See `Store.names`."""
        homes = self.root.iterdir() if self.root.is_dir() else ()
        return sorted(home.name for home in homes if is_name(home.name) and _snapshots(home))

    def history(self, name: str) -> list[StoredSnapshot]:
        """See `Store.history`. Newest is the one frozen last. Raises DamagedError when a manifest is damaged."""
        home = self.root / check_name(name)
        latest = _latest(home)
        history = []
        for folder in _snapshots(home):
            # Pruned since it was listed, or of a format that nothing here can use.
            with contextlib.suppress(SnapshotNotFoundError, FormatVersionError):
                history.append(_stored(name, folder, latest))
        return sorted(history, key=lambda stored: (stored.created_at, stored.digest), reverse=True)

    def prune(self, name: str, *, keep: int) -> list[StoredSnapshot]:
        """See `Store.prune`. Also removes what killed publishers left behind."""
        if keep < 0:
            raise ValueError(f"cannot keep {keep} snapshots: give 0 or more")
        home = self.root / check_name(name)
        if not home.is_dir():
            return []
        with _locked(home, fcntl.LOCK_EX):
            removed = [stored for stored in self.history(name)[keep:] if not stored.is_latest]
            for stored in removed:
                # Out of sight first: a folder half removed would look like a damaged snapshot.
                stored.folder.rename(home / f"{STAGING_PREFIX}pruned-{stored.folder.name}")
            sync_folder(home)
            for leftover in home.glob(f"{STAGING_PREFIX}*"):
                if leftover.is_symlink():
                    leftover.unlink()
                else:
                    shutil.rmtree(leftover)
        return removed


@contextlib.contextmanager
def _locked(home: Path, operation: int) -> Iterator[None]:
    descriptor = os.open(home / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)


def _snapshots(home: Path) -> list[Path]:
    if not home.is_dir():
        return []
    return sorted(folder for folder in home.iterdir() if _FOLDER.fullmatch(folder.name))


def _stored(name: str, folder: Path, latest: str | None) -> StoredSnapshot:
    manifest = read_manifest(folder)
    return StoredSnapshot(name, manifest.digest, manifest.created_at, folder.name == latest, folder)


def _latest(home: Path) -> str | None:
    try:
        return os.readlink(home / LATEST)
    except FileNotFoundError:
        return None


def _point_latest(home: Path, folder: str) -> None:
    pointer = home / f"{STAGING_PREFIX}{os.urandom(8).hex()}"
    pointer.symlink_to(folder)
    pointer.replace(home / LATEST)
    sync_folder(home)


def _link_or_copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, target)


def _listed(names: list[str]) -> str:
    return ", ".join([*names[:_LISTED], *(["..."] if len(names) > _LISTED else [])]) or "nothing"
