"""Folders that appear whole or not at all.

A folder is filled under a hidden name beside its place, made durable, and renamed into place. Whatever happens before
the rename, even a kill, leaves nothing under the real name.

A scratch folder is for what is on its way to a store. Its maker holds a lock on it, which a kill takes away: so those
that were left behind are told from those in use.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from snapshot.errors import NoSpaceError, SnapshotExistsError

STAGING_PREFIX = ".staging-"
SCRATCH_PREFIX = ".scratch-"
_READ_ONLY = 0o444
_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextlib.contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """A new folder that becomes `target` when the block ends well, and goes when it does not.

    Raises SnapshotExistsError when `target` is there, before the block or after it; NoSpaceError when the disk is full.
    """
    _refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = target.parent / f"{STAGING_PREFIX}{target.name[:40]}-{os.urandom(8).hex()}"
    staging.mkdir()
    try:
        yield staging
        _make_durable(staging)
        _refuse_existing(target)
        try:
            staging.rename(target)
        except OSError as error:
            _refuse_existing(target)
            raise error
    except BaseException as error:
        shutil.rmtree(staging, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in _FULL:
            raise NoSpaceError(
                f"{target.parent} has no room for what is to be written ({error.strerror}): "
                f"remove snapshots, or choose another folder"
            ) from error
        raise
    sync_folder(target.parent)


@contextlib.contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A new hidden folder in `root`, for the time of the block."""
    while True:
        folder = root / f"{SCRATCH_PREFIX}{os.urandom(8).hex()}"
        folder.mkdir()
        with contextlib.ExitStack() as opened:
            try:
                descriptor = opened.enter_context(_open_folder(folder))
            except FileNotFoundError:
                continue
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():  # nobody took it for an abandoned one before it was locked
                try:
                    yield folder
                finally:
                    shutil.rmtree(folder)
                return


def abandoned_scratches(root: Path) -> Iterator[Path]:
    """The scratch folders in `root` whose maker is gone."""
    for folder in sorted(root.glob(f"{SCRATCH_PREFIX}*")):
        with contextlib.suppress(FileNotFoundError, BlockingIOError), _open_folder(folder) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder


def _refuse_existing(target: Path) -> None:
    if os.path.lexists(target):
        raise SnapshotExistsError(
            f"{target} exists; a snapshot is never written over: remove it or choose another place"
        )


def _make_durable(folder: Path) -> None:
    for parent, _, files in os.walk(folder):
        for name in files:
            descriptor = os.open(os.path.join(parent, name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fchmod(descriptor, _READ_ONLY)  # mapped files must not change under those who map them
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(parent))


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable."""
    with _open_folder(folder) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
