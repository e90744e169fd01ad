"""A store that is a folder.

    ROOT/blobs/DIGEST, ROOT/partial/DIGEST    the files of all snapshots, each held once: see `snapshot.blobs`
    ROOT/NAME/0123456789abcdef/     a snapshot, named by the beginning of its digest: its manifest, and links to blobs
    ROOT/NAME/latest                a symbolic link to one of them, replaced by rename; leads nowhere once that is gone
    ROOT/NAME/versions/1            a symbolic link to one of them, which is kept while it is there: version 1
    ROOT/NAME/.staging-...          being published, or left by a process that was killed; `prune` removes those
    ROOT/NAME/.lock                 held shared while publishing, alone while pruning

No name collides with the folders of blobs: what lies in those has longer names than anything in a snapshot's.
What is removed while a process maps it lives on for that process. A snapshot's last use is the time of its folder.
"""

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from snapshot.blobs import Blobs
from snapshot.errors import FormatVersionError, SnapshotExistsError, SnapshotNotFoundError
from snapshot.manifest import FORMAT_VERSION, MANIFEST_FILE, SHORT_DIGEST_LENGTH, FileRecord, Manifest, Shard
from snapshot.manifest_reading import read_format_version, read_manifest
from snapshot.mapping import opened
from snapshot.staging import STAGING_PREFIX, staged_folder, sync_folder
from snapshot.store import LATEST, VERSIONS, StoredSnapshot, check_name, is_name, listed
from snapshot.verify import check_file

LOCK = ".lock"
_FOLDER = re.compile(rf"[0-9a-f]{{{SHORT_DIGEST_LENGTH}}}")
_COPY_BYTES = 1 << 22


class LocalStore:
    """A `Store` in the folder `root`, which is made when it is first written to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs = Blobs(root)

    def folder(self, stored: StoredSnapshot) -> Path:
        """Where one of its snapshots lies, for `thaw`, `verify` and `read_manifest`."""
        return self.root / stored.name / stored.short_digest

    def publish(self, name: str, folder: Path) -> StoredSnapshot:
        """See `Store.publish`. Raises BadNameError, SnapshotNotFoundError, DamagedError."""
        manifest = read_manifest(folder)
        with self.receiving(name, manifest) as staging:
            if staging is not None:
                for record in manifest.all_files:
                    self._take_in(record, folder / record.file, staging / record.file)
        return StoredSnapshot(name, manifest.digest, manifest.created_at, is_latest=True)

    @contextlib.contextmanager
    def receiving(self, name: str, manifest: Manifest) -> Iterator[Path | None]:
        """A new folder to fill with the files of `manifest`, by way of `blobs`.

        It becomes a snapshot of `name`, and the latest, when the block ends well. None, with only the latest to be
        set, when the snapshot is there. Any number of processes may receive the same one at once: the first to end
        wins. Raises BadNameError, and SnapshotExistsError when another snapshot's digest begins like this one's.
        """
        home = self.root / check_name(name)
        home.mkdir(parents=True, exist_ok=True)
        target = home / manifest.short_digest
        with locked(home, fcntl.LOCK_SH):
            with contextlib.suppress(SnapshotExistsError), contextlib.ExitStack() as stack:
                staging = None
                with contextlib.suppress(SnapshotExistsError):
                    staging = stack.enter_context(staged_folder(target))
                    (staging / MANIFEST_FILE).write_bytes(manifest.encode())
                yield staging
            os.utime(target)
            stored = read_manifest(target)
            if stored.digest != manifest.digest:
                raise SnapshotExistsError(f"{target} holds {stored.digest}, which begins like {manifest.digest}")
            _point_latest(home, target.name)

    def find(self, name: str, digest: str | None = None) -> StoredSnapshot:
        """See `Store.find`. Raises DamagedError when the manifest found is damaged."""
        home = self.root / check_name(name)
        latest = _latest(home)
        if digest is None and latest is not None:
            return _stored(name, home / latest, latest)
        history = self.history(name)
        if not history:
            raise SnapshotNotFoundError(f"{self.root} has no snapshot of {name!r}; it has: {listed(self.names())}")
        found = [stored for stored in history if digest is not None and stored.digest.startswith(digest)]
        if len(found) != 1:
            fault = "several snapshots" if found else "no snapshot"
            among = listed([stored.short_digest for stored in history])
            raise SnapshotNotFoundError(f"{fault} of {name!r} in {self.root} for {digest or LATEST!r}, among: {among}")
        return found[0]

    def names(self) -> list[str]:
        """See `Store.names`."""
        return [home.name for home in self.homes() if snapshot_folders(home)]

    def homes(self) -> list[Path]:
        """The folders of all names, in order, also of those that have no snapshot any more."""
        homes = self.root.iterdir() if self.root.is_dir() else ()
        return sorted(home for home in homes if is_name(home.name) and home.is_dir())

    def history(self, name: str) -> list[StoredSnapshot]:
        """See `Store.history`. Newest is the one frozen last. Raises DamagedError when a manifest is damaged."""
        home = self.root / check_name(name)
        latest = _latest(home)
        history = []
        for folder in snapshot_folders(home):
            # Pruned since it was listed, or of a format that nothing here can use.
            with contextlib.suppress(SnapshotNotFoundError, FormatVersionError):
                history.append(_stored(name, folder, latest))
        return sorted(history, key=lambda stored: (stored.created_at, stored.digest), reverse=True)

    def prune(self, name: str, *, keep: int) -> list[StoredSnapshot]:
        """See `Store.prune`.

        Also removes what killed publishers left behind, snapshots of an older format, which nothing reads any more, and
        blobs that no snapshot has.
        """
        if keep < 0:
            raise ValueError(f"cannot keep {keep} snapshots: give 0 or more")
        home = self.root / check_name(name)
        if not home.is_dir():
            return []
        with locked(home, fcntl.LOCK_EX):
            numbered = set(numbered_folders(home).values())
            spare = [stored for stored in self.history(name)[keep:] if stored.short_digest not in numbered]
            removed = [stored for stored in spare if not stored.is_latest]
            for stored in removed:
                hide(self.folder(stored))
            latest = _latest(home)
            for folder in snapshot_folders(home):
                if folder.name != latest and read_format_version(folder) < FORMAT_VERSION:
                    hide(folder)
            sync_folder(home)
            for leftover in leftovers(home):
                remove(leftover)
        for blob in self.blobs.unheld():
            blob.unlink(missing_ok=True)
        return removed

    def versions(self, name: str) -> dict[int, str]:
        """See `Store.versions`."""
        return numbered_folders(self.root / check_name(name))

    def number(self, name: str, version: int, digest: str) -> None:
        """See `Store.number`."""
        home = self.root / check_name(name)
        target = self.folder(self.find(name, digest)).name
        place = home / VERSIONS / str(version)
        with locked(home, fcntl.LOCK_SH):
            if version in numbered_folders(home):
                raise SnapshotExistsError(f"{name} has a version {version} already: {place}")
            place.parent.mkdir(exist_ok=True)
            place.symlink_to(f"../{target}")
            sync_folder(place.parent)

    def unnumber(self, name: str, version: int) -> None:
        """See `Store.unnumber`."""
        home = self.root / check_name(name)
        if version not in numbered_folders(home):
            known = listed([str(number) for number in sorted(numbered_folders(home))])
            raise SnapshotNotFoundError(f"{name} has no version {version} in {self.root}; it has: {known}")
        (home / VERSIONS / str(version)).unlink(missing_ok=True)

    def _take_in(self, record: FileRecord | Shard, source: Path, target: Path) -> None:
        with opened(source, record.num_bytes):
            if self.blobs.hold(record.digest, record.num_bytes, target):
                return
        check_file(source, record)  # one wrong file under a right address would spoil every snapshot that shares it
        if self.blobs.adopt(record.digest, source, target):
            return
        with self.blobs.writing(record.digest, record.num_bytes, target) as partial:
            if partial is not None:
                with open(source, "rb") as file, open(partial, "r+b") as copy:  # not cut: its space is reserved
                    shutil.copyfileobj(file, copy, _COPY_BYTES)


def snapshot_folders(home: Path) -> list[Path]:
    """The folders of a name's snapshots, in order of their digests."""
    if not home.is_dir():
        return []
    return sorted(folder for folder in home.iterdir() if _FOLDER.fullmatch(folder.name))


def numbered_folders(home: Path) -> dict[int, str]:
    """The versions of a name, each with the name of its snapshot's folder, where that is there."""
    places = [place for place in (home / VERSIONS).glob("*") if place.name.isdecimal() and place.is_symlink()]
    return {int(place.name): os.path.basename(os.readlink(place)) for place in places if place.is_dir()}


def leftovers(home: Path) -> list[Path]:
    """What publishers and removers that died have left; theirs alone while the name is locked alone."""
    return sorted(home.glob(f"{STAGING_PREFIX}*"))


def hide(folder: Path) -> None:
    """Make a snapshot a leftover, so that no half of it is seen while it is removed."""
    folder.rename(folder.parent / f"{STAGING_PREFIX}pruned-{folder.name}-{os.urandom(4).hex()}")


def remove(leftover: Path) -> None:
    """Remove a leftover, whatever it is, as far as nobody else does at the same time."""
    with contextlib.suppress(FileNotFoundError):
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()


@contextlib.contextmanager
def locked(home: Path, operation: int) -> Iterator[None]:
    """Hold a name's lock, shared or alone (fcntl.LOCK_SH, LOCK_EX). Raises BlockingIOError where asked not to wait."""
    descriptor = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)


def _stored(name: str, folder: Path, latest: str | None) -> StoredSnapshot:
    manifest = read_manifest(folder)
    return StoredSnapshot(name, manifest.digest, manifest.created_at, folder.name == latest)


def _latest(home: Path) -> str | None:
    try:
        latest = os.readlink(home / LATEST)
    except FileNotFoundError:
        return None
    return latest if (home / latest).is_dir() else None


def _point_latest(home: Path, folder: str) -> None:
    pointer = home / f"{STAGING_PREFIX}{os.urandom(8).hex()}"
    pointer.symlink_to(folder)
    pointer.replace(home / LATEST)
    sync_folder(home)
