"""A folder store within a budget: what goes, removed.

A snapshot that a process has mapped is never removed, nor one that was used a moment ago: its user may be about to map
it. What is being written is left alone. A kill at any point leaves a store of whole snapshots, and the next run ends
the work: what is removed is hidden first, and a blob goes only when nothing holds it.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from snapshot import mapped
from snapshot.cache import Choice, Holder, choose, held_bytes
from snapshot.local_store import (
    LOCK,
    LocalStore,
    hide,
    leftovers,
    locked,
    numbered_folders,
    remove,
    snapshot_folders,
)
from snapshot.mapped import FileId, Mapped
from snapshot.staging import abandoned_scratches, sync_folder
from snapshot.store import LATEST

JUST_USED_S = 60.0
UNSEEN_SPARE_S = 3600.0
"""How long a use protects where other users' processes cannot be looked into."""
STALE_PARTIAL_S = 86400.0

BEING_WRITTEN = "is being written"
LEFT_BEHIND = "was left by a process that died"
NOT_HELD = "is in no snapshot"
PINNED = "is pinned"
USED_MEANWHILE = "was used meanwhile"


class Collected(msgspec.Struct, frozen=True):
    """What was done, or with a dry run would be. `num_unseen`: processes that could not be looked into."""

    going: list[tuple[Holder, str]]
    staying: list[tuple[Holder, str]]
    before_bytes: int
    after_bytes: int
    num_unseen: int


def collect(
    store: LocalStore, budget_bytes: int | None, *, dry_run: bool = False, pinned: Mapping[str, str] | None = None
) -> Collected:
    """Remove what nothing holds, and the least recently used snapshots that are not in use, down to the budget.

    Without a budget no snapshot goes; those that are `pinned`, digests by name, never do. Never waits: names that are
    being published to are left alone.
    """
    now = time.time()  # not a duration: the times of files are compared with it
    with contextlib.ExitStack() as locks:
        homes = {home: _lock(home, locks) for home in store.homes() if (home / LOCK).exists()}
        ours = [home for home, is_ours in homes.items() if is_ours]
        found = [*_snapshots(homes), *_left_behind(store, ours), *_partials(store, now), *_unheld(store)]
        seen = mapped.look()  # after the times of last use were read: who maps from now on has changed them
        holders = [_spared(_pinned(one, pinned or {}), seen, now) for one in found]
        choice = choose(holders, budget_bytes)
        if not dry_run:
            choice = _carry_out(choice, store)
            _finish(store, ours)
    after_bytes = held_bytes([one for one, _ in choice.staying])
    return Collected(choice.going, choice.staying, held_bytes(holders), after_bytes, seen.num_unseen)


def _lock(home: Path, locks: contextlib.ExitStack) -> bool:
    try:
        locks.enter_context(locked(home, fcntl.LOCK_EX | fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _snapshots(homes: dict[Path, bool]) -> Iterator[Holder]:
    for home, is_ours in homes.items():
        versions = {folder: number for number, folder in numbered_folders(home).items()}
        for folder in snapshot_folders(home):
            with contextlib.suppress(FileNotFoundError):  # pruned meanwhile, where it is not ours
                yield Holder(
                    kind="snapshot",
                    path=folder,
                    name=home.name,
                    digest=folder.name,
                    last_used=folder.stat().st_mtime,
                    files=_files_below(folder),
                    must_stay=_why_stays(is_ours, versions.get(folder.name)),
                )


def _why_stays(is_ours: bool, version: int | None) -> str | None:
    if not is_ours:
        return BEING_WRITTEN
    return None if version is None else f"is version {version}"


def _left_behind(store: LocalStore, ours: list[Path]) -> Iterator[Holder]:
    for path in (*abandoned_scratches(store.root), *(path for home in ours for path in leftovers(home))):
        yield Holder(kind="leftover", path=path, files=_files_below(path), must_go=LEFT_BEHIND)


def _partials(store: LocalStore, now: float) -> Iterator[Holder]:
    for path in store.blobs.partials():
        with contextlib.suppress(FileNotFoundError):
            last_used = path.stat().st_mtime
            is_written = store.blobs.is_being_written(path)
            is_stale = now - last_used > STALE_PARTIAL_S
            yield Holder(
                kind="partial",
                path=path,
                digest=path.name,
                last_used=last_used,
                files=_files([path]),
                must_go=LEFT_BEHIND if is_stale and not is_written else None,
                must_stay=BEING_WRITTEN if is_written else None,
            )


def _unheld(store: LocalStore) -> Iterator[Holder]:
    for path in store.blobs.unheld():
        yield Holder(kind="blob", path=path, digest=path.name, files=_files([path]), must_go=NOT_HELD)


def _files_below(folder: Path) -> dict[FileId, int]:
    if folder.is_symlink():
        return {}
    return _files([Path(parent, name) for parent, _, names in os.walk(folder) for name in names])


def _files(paths: list[Path]) -> dict[FileId, int]:
    files = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another one's to remove, and gone
            stat = path.lstat()
            files[stat.st_dev, stat.st_ino] = stat.st_size
    return files


def note_uses(store: LocalStore) -> None:
    """Set the last use of all snapshots that a process has mapped to now.

    For stores whose readers cannot write that down themselves, since they may only read there.
    """
    seen = mapped.look()
    for home in store.homes():
        for folder in snapshot_folders(home):
            if seen.holder_of(folder, _files_below(folder)) is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.utime(folder)


def _pinned(one: Holder, pinned: Mapping[str, str]) -> Holder:
    """The same, told to stay where it is pinned."""
    digest = pinned.get(one.name)
    if one.kind != "snapshot" or one.must_stay or digest is None or not digest.startswith(one.digest):
        return one
    return msgspec.structs.replace(one, must_stay=PINNED)


def _spared(one: Holder, seen: Mapped, now: float) -> Holder:
    """The same, told to stay where it is in use."""
    if one.kind != "snapshot" or one.must_stay:
        return one
    if (process := seen.holder_of(one.path, one.files)) is not None:
        return msgspec.structs.replace(one, must_stay=f"is mapped by process {process}")
    if now - one.last_used < JUST_USED_S:
        return msgspec.structs.replace(one, must_stay="was used a moment ago")
    if seen.num_unseen and now - one.last_used < UNSEEN_SPARE_S:
        return msgspec.structs.replace(one, must_stay="may be mapped by a process of another user")
    return one


def _carry_out(choice: Choice, store: LocalStore) -> Choice:
    going, staying = [], list(choice.staying)
    for one, reason in choice.going:
        if _remove(one, store):
            going.append((one, reason))
        else:
            staying.append((one, USED_MEANWHILE))
    return Choice(going, staying)


def _remove(one: Holder, store: LocalStore) -> bool:
    """Remove it, or make it what `_finish` removes; False where it has come into use since."""
    if one.kind == "snapshot":
        if one.path.stat().st_mtime != one.last_used:
            return False
        hide(one.path)
    elif one.kind == "partial":
        return store.blobs.discard(one.path)
    elif one.kind == "leftover":
        remove(one.path)
    return True


def _finish(store: LocalStore, ours: list[Path]) -> None:
    for home in ours:
        sync_folder(home)  # nothing is gone before it is out of sight, also after a power cut
        for leftover in leftovers(home):
            remove(leftover)
        if (home / LATEST).is_symlink() and not (home / LATEST).exists():
            (home / LATEST).unlink()
    for blob in store.blobs.unheld():
        blob.unlink(missing_ok=True)
