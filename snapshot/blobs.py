"""The files of a folder store by their content address, each held once.

    ROOT/blobs/DIGEST       a whole file, read-only; every snapshot that has it holds a hard link to it
    ROOT/partial/DIGEST     being written, or left by a writer that died: the next one goes on with it

A blob that no snapshot holds has one link. So that none which somebody is about to hold looks like that, a blob gets
the link of its holder first and its own name second. Where the file system has no hard links, holders get copies.
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from snapshot.errors import NoSpaceError
from snapshot.staging import sync_folder

BLOBS = "blobs"
PARTIAL = "partial"

_DIGEST = re.compile(r"[0-9a-f]{64}")
_READ_ONLY = 0o444
_WRITABLE = 0o644
_NO_LINK = {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_FULL = {errno.ENOSPC, errno.EDQUOT}


class Blobs:
    """The blobs of the folder store `root`. Digests are content addresses, in hexadecimal."""

    def __init__(self, root: Path) -> None:
        self.folder = root / BLOBS
        self.partial = root / PARTIAL

    def find(self, digest: str) -> Path | None:
        """The blob's file, where there is one. It may be collected at any time: to keep it, `hold` it."""
        path = self.folder / digest
        return path if path.exists() else None

    def hold(self, digest: str, num_bytes: int, target: Path) -> bool:
        """Make the blob appear as `target` too. False when there is no such blob, or its file is cut short."""
        blob = self.folder / digest
        try:
            if blob.stat().st_size != num_bytes:
                return False
            _link_or_copy(blob, target)
        except FileNotFoundError:
            return False
        return True

    def adopt(self, digest: str, source: Path, target: Path) -> bool:
        """Take in `source`, whose content has this digest, by links alone, and make it appear as `target` too.

        False, and nothing done, where it cannot be linked: it must be written then.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
        with _opened(target, os.O_RDONLY) as descriptor:
            _make_lasting(descriptor)
        num_bytes = target.stat().st_size
        try:
            os.link(target, self.folder / digest)
        except FileExistsError:  # another process was faster: share what it took in
            target.unlink()
            return self.hold(digest, num_bytes, target)
        except OSError:
            target.unlink()
            return False
        sync_folder(self.folder)
        return True

    @contextlib.contextmanager
    def writing(self, digest: str, num_bytes: int, target: Path) -> Iterator[Path | None]:
        """Write the blob, unless it is there; afterwards it appears as `target` too.

        Yields the file to fill, `num_bytes` long, its space reserved, what was never written a hole (as SEEK_DATA
        tells). It may hold what a writer that died has left: content is to be trusted only where its digest is right.
        When the block ends well the file is made durable and read-only and becomes the blob; when it raises, the file
        stays for the next writer. Yields None, with nothing left to do, when the blob is there.

        Blocks while another process or thread writes the same blob. Whoever writes several at once enters in the
        order of their digests, so that no two wait for each other.
        Raises NoSpaceError.
        """
        with self._locked(digest, num_bytes, target) as descriptor:
            if descriptor is None:
                yield None
                return
            path = self.partial / digest
            os.fchmod(descriptor, _WRITABLE)  # read-only when its last writer died on the last step
            _reserve(path, num_bytes)
            yield path
            _make_lasting(descriptor)
            target.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(path, target)
            path.replace(self.folder / digest)
            sync_folder(self.folder)

    def unheld(self) -> Iterator[Path]:
        """The blobs that no snapshot has, nor one on its way in."""
        for path in _files(self.folder):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_nlink == 1:
                    yield path

    def partials(self) -> Iterator[Path]:
        """What is being written, or was left by a writer that died."""
        yield from _files(self.partial)

    def is_being_written(self, partial: Path) -> bool:
        """Whether somebody writes it now."""
        with contextlib.suppress(FileNotFoundError), _opened(partial, os.O_RDONLY) as descriptor:
            return not _try_lock(descriptor)
        return False

    def discard(self, partial: Path) -> bool:
        """Remove what a writer that died has left. False, and nothing done, while somebody writes it."""
        with contextlib.suppress(FileNotFoundError), _opened(partial, os.O_RDONLY) as descriptor:
            if not _try_lock(descriptor):
                return False
            if _is_file_of(descriptor, partial):
                partial.unlink()
        return True

    @contextlib.contextmanager
    def _locked(self, digest: str, num_bytes: int, target: Path) -> Iterator[int | None]:
        """The partial's descriptor, locked; None when `target` could be made from a blob."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.partial.mkdir(exist_ok=True)
        path = self.partial / digest
        while not self.hold(digest, num_bytes, target):
            with _opened(path, os.O_RDONLY | os.O_CREAT) as descriptor:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if not _is_file_of(descriptor, path):
                    continue  # it became the blob, or was collected, while this waited for its lock
                if not self.hold(digest, num_bytes, target):
                    yield descriptor
                    return
                path.unlink()  # the blob appeared before this file was made
                break
        yield None


def _link_or_copy(source: Path, target: Path) -> None:
    """Make `source` appear as `target` too. Raises FileNotFoundError, FileExistsError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, target)


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (folder / name for name in sorted(os.listdir(folder)) if _DIGEST.fullmatch(name))


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_file_of(descriptor: int, path: Path) -> bool:
    """Whether `path` still leads to the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, _WRITABLE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _make_lasting(descriptor: int) -> None:
    os.fchmod(descriptor, _READ_ONLY)  # mapped files must not change under those who map them
    os.fsync(descriptor)


def _reserve(path: Path, num_bytes: int) -> None:
    """Give the file its size and its space now: a mapping that is written to has no way to say that a disk is full."""
    with _opened(path, os.O_RDWR) as descriptor:
        is_new = os.fstat(descriptor).st_size == 0
        try:
            os.ftruncate(descriptor, num_bytes)
            if num_bytes:
                os.posix_fallocate(descriptor, 0, num_bytes)
        except OSError as error:
            if is_new:
                path.unlink()
            if error.errno not in _FULL:
                raise
            free_bytes = shutil.disk_usage(path.parent).free
            raise NoSpaceError(
                f"{path.parent.parent} has no room for a file of {num_bytes} bytes, {free_bytes} are free: "
                f"remove snapshots, or choose another folder"
            ) from error
