"""Kills work with SIGKILL, at random moments or before any step it takes on the file system, and looks at what is left.

def work(point: int) -> Callable[[], object]:      # arranges one run, and returns what the child is to do
def check(point: int) -> None:                     # in the test's process, after the child is dead
kill_at_random_moments(work, check, num_kills=100)
"""

import os
import random
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import snapshot
from snapshot import LocalStore
from snapshot.digests import digest_bytes

Work = Callable[[int], Callable[[], object]]
Check = Callable[[int], None]

STEPS = {
    "open",
    "os.mkdir",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.truncate",
    "os.utime",
    "shutil.copyfile",
    "shutil.rmtree",
    "os.remove",
    "os.rmdir",
}
"""Audit events of what changes files."""
_HANG_S = 120.0


def kill_at_random_moments(work: Work, check: Check, *, num_kills: int, seed: int = 0) -> int:
    """Kill the work `num_kills` times, each time after another part of the time that it takes; check after each run.

    Runs that end before their kill are checked too and not counted. Returns the number of runs.
    """
    moments = random.Random(seed)
    num_runs = num_killed = 0
    full_s = _checked(work, check, num_runs, _HANG_S)
    assert full_s is not None, "the first run, which nothing disturbs, does not end"
    while num_killed < num_kills:
        num_runs += 1
        assert num_runs < 20 * num_kills, f"only {num_killed} of {num_runs} runs were killed before they ended"
        took_s = _checked(work, check, num_runs, moments.uniform(0.0, full_s))
        num_killed += took_s is None
        full_s = full_s if took_s is None else (full_s + took_s) / 2
    return num_runs


def kill_at_every_step(work: Work, check: Check) -> int:
    """Kill the work before its first step, its second, and so on, to its end; check after each. Returns how many."""
    step = 0
    while _killed_at(step, work(step)):
        check(step)
        step += 1
        assert step < 1000
    check(step)
    return step


def _checked(work: Work, check: Check, point: int, after_s: float) -> float | None:
    took_s = killed_after(work(point), after_s)
    check(point)
    return took_s


def killed_after(work: Callable[[], object], after_s: float) -> float | None:
    """Run `work` in a child, killed with all its own children `after_s` after its beginning.

    Returns None when it was killed, and how long it took when it ended before. Fails when it raised.
    """
    with _child(work) as (process, begun):
        assert os.read(begun, 1) == b"b", "the child did not begin"
        began_s = monotonic()
        descriptor = os.pidfd_open(process)
        try:
            ended, _, _ = select.select([descriptor], [], [], after_s)
        finally:
            os.close(descriptor)
            took_s = monotonic() - began_s
            _kill_group(process)
    _, status = os.waitpid(process, 0)
    assert status in (0, signal.SIGKILL), "the child failed by itself: see what it wrote"
    return took_s if ended and status == 0 else None


def _killed_at(step: int, work: Callable[[], object]) -> bool:
    remaining = step

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal remaining
        if event in STEPS and (event != "open" or arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            remaining -= 1
            if remaining < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def counted() -> None:
        sys.addaudithook(count)
        work()

    return killed_after(counted, _HANG_S) is None


@contextmanager
def _child(work: Callable[[], object]) -> Iterator[tuple[int, int]]:
    """Fork; the child says when it begins."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            os.write(writer, b"b")
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    try:
        yield process, reader
    finally:
        os.close(reader)


def _kill_group(process: int) -> None:
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(process, signal.SIGKILL)  # not yet waited for, so it is no other's number


def check_store(store: LocalStore) -> None:
    """Fail unless all that can be seen of the store is whole: every snapshot, every latest, every blob."""
    for name in store.names():
        history = store.history(name)
        for stored in history:
            folder = store.folder(stored)
            assert snapshot.verify(folder).digest == stored.digest
            assert {path.name for path in folder.iterdir()} == _listed(folder)
        latest = store.root / name / "latest"
        if latest.is_symlink() and latest.exists():
            assert store.find(name) in history
    for blob in _files(store.blobs.folder):
        assert digest_bytes(blob.read_bytes())[0] == blob.name
        assert blob.stat().st_mode & 0o222 == 0


def check_tidy(store: LocalStore) -> None:
    """Fail unless the store holds its snapshots and nothing else."""
    assert list(_files(store.blobs.partial)) == []
    assert list(store.root.glob(".*")) == []
    held = set()
    for home in store.homes():
        names = {stored.short_digest for stored in store.history(home.name)}
        assert {path.name for path in home.iterdir() if len(path.name) < 64} <= names | {"latest", ".lock"}
        for stored in store.history(home.name):
            held |= {record.digest for record in snapshot.read_manifest(store.folder(stored)).all_files}
    assert {blob.name for blob in _files(store.blobs.folder)} == held


def _listed(folder: Path) -> set[str]:
    names = {Path(record.file).parts[0] for record in snapshot.read_manifest(folder).all_files}
    return names | {"manifest.json"}


def _files(folder: Path) -> Iterator[Path]:
    yield from (path for path in sorted(folder.glob("*")) if path.is_file() and len(path.name) == 64)
