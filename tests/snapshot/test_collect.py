import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapshot
from snapshot import LocalStore, StoredSnapshot, mapped
from snapshot.cache import LEAST_RECENTLY_USED, NO_BUDGET
from snapshot.collect import BEING_WRITTEN, LEFT_BEHIND, NOT_HELD, Collected, collect
from snapshot.mapped import Mapped
from snapshot.staging import abandoned_scratches, scratch_folder
from tests.snapshot.conftest import ROOT
from tests.snapshot.killing import check_tidy

HOLD = """
import json, pathlib, re, sys
import snapshot
thawed = snapshot.thaw(pathlib.Path(sys.argv[1]))
thawed.state["weights"].sum()
print("held", flush=True)
sys.stdin.readline()
pss = private = 0
inside = False
for line in open("/proc/self/smaps"):
    if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
        inside = ".safetensors" in line
    elif inside and line.startswith("Pss:"):
        pss += int(line.split()[1]) * 1024
    elif inside and line.startswith("Private_"):
        private += int(line.split()[1]) * 1024
print(json.dumps({"pss": pss, "private": private}), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


Publish = Callable[..., StoredSnapshot]


@pytest.fixture
def publish(store: LocalStore, tmp_path: Path) -> Publish:
    """Publishes a snapshot that was last used `hours` ago; equal weights make equal shards."""

    def run(name: str, value: int, *, hours: float = 24.0, weights: float | None = None) -> StoredSnapshot:
        folder = tmp_path / f"made-{name}-{value}"
        weight = float(value) if weights is None else weights
        snapshot.freeze({"value": value, "weights": np.full(10_000, weight)}, folder)
        stored = store.publish(name, folder)
        for path in sorted(folder.iterdir()):
            path.unlink()
        used_ago(store.folder(stored), hours * 3600)
        return stored

    return run


def used_ago(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


@contextmanager
def holding(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has thawed a snapshot; a line to it is answered with what it is charged for the tensors."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def charged(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    told: dict[str, Any] = json.loads(process.stdout.readline())
    return told


def fates(done: Collected) -> tuple[dict[str, str], dict[str, str]]:
    going, staying = ({one.digest or one.path.name: why for one, why in part} for part in (done.going, done.staying))
    return going, staying


def test_without_a_budget_every_snapshot_stays(store: LocalStore, publish: Publish) -> None:
    stored = publish("a", 1)
    assert fates(collect(store, None)) == ({}, {stored.short_digest: NO_BUDGET})
    assert snapshot.verify(store.folder(stored))


def test_a_store_that_is_not_there_has_nothing_to_collect(store: LocalStore) -> None:
    assert collect(store, 0).before_bytes == 0
    assert not store.root.exists()


def test_the_least_recently_used_goes_with_its_blobs_and_the_latest_with_it(
    store: LocalStore, publish: Publish
) -> None:
    old, new = publish("a", 1, hours=30), publish("b", 2, hours=20)
    done = collect(store, 100_000)
    assert fates(done)[0] == {old.short_digest: LEAST_RECENTLY_USED}
    assert done.after_bytes < 100_000 < done.before_bytes < 180_000
    assert store.names() == ["b"]
    assert not (store.root / "a" / "latest").is_symlink()
    assert snapshot.verify(store.folder(new))
    check_tidy(store)


def test_a_version_stays_whatever_the_budget(store: LocalStore, publish: Publish) -> None:
    old, new = publish("a", 1, hours=9), publish("a", 2, hours=5)
    store.number("a", 3, old.digest)
    going, staying = fates(collect(store, 0))
    assert going == {new.short_digest: LEAST_RECENTLY_USED}
    assert staying == {old.short_digest: "is version 3"}


def test_a_thaw_is_a_use(store: LocalStore, publish: Publish) -> None:
    old, new = publish("a", 1, hours=30), publish("b", 2, hours=20)
    snapshot.thaw(store.root / "a" / "latest")
    assert fates(collect(store, 100_000))[0] == {new.short_digest: LEAST_RECENTLY_USED}
    assert snapshot.verify(store.folder(old))


def test_what_was_used_a_moment_ago_stays_though_nothing_is_mapped_yet(store: LocalStore, publish: Publish) -> None:
    stored = publish("a", 1, hours=0)
    assert fates(collect(store, 0)) == ({}, {stored.short_digest: "was used a moment ago"})


def test_what_a_process_has_mapped_is_never_collected(store: LocalStore, publish: Publish) -> None:
    used, free = publish("a", 1, hours=50), publish("b", 2)
    with holding(store.folder(used)) as process:
        used_ago(store.folder(used), 50 * 3600)
        assert fates(collect(store, 0)) == (
            {free.short_digest: LEAST_RECENTLY_USED},
            {used.short_digest: f"is mapped by process {process.pid}"},
        )
    assert snapshot.verify(store.folder(used))
    assert set(fates(collect(store, 0))[0]) == {used.short_digest}
    check_tidy(store)


def test_other_peoples_processes_protect_what_was_used_of_late(
    store: LocalStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, early = publish("a", 1, hours=0.5), publish("b", 2, hours=2)
    monkeypatch.setattr(mapped, "look", lambda: Mapped({}, {}, 3))
    done = collect(store, 0)
    assert done.num_unseen == 3
    assert fates(done) == (
        {early.short_digest: LEAST_RECENTLY_USED},
        {late.short_digest: "may be mapped by a process of another user"},
    )


def test_what_was_used_between_the_look_and_the_removal_stays(
    store: LocalStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = publish("a", 1)

    def used_meanwhile() -> Mapped:
        snapshot.thaw(store.folder(stored))
        return Mapped({}, {}, 0)

    monkeypatch.setattr(mapped, "look", used_meanwhile)
    assert fates(collect(store, 0)) == ({}, {stored.short_digest: "was used meanwhile"})
    assert snapshot.verify(store.folder(stored))


def test_a_dry_run_tells_what_would_go_and_removes_nothing(store: LocalStore, publish: Publish) -> None:
    stored = publish("a", 1)
    told = collect(store, 0, dry_run=True)
    assert snapshot.verify(store.folder(stored))
    done = collect(store, 0)
    assert fates(told) == fates(done)
    assert (told.before_bytes, told.after_bytes) == (done.before_bytes, done.after_bytes)
    assert done.after_bytes == 0


def test_a_shard_goes_with_the_last_snapshot_that_has_it(store: LocalStore, publish: Publish) -> None:
    older, newer = publish("a", 1, hours=30, weights=5.0), publish("a", 2, hours=20, weights=5.0)
    shard = snapshot.read_manifest(store.folder(newer)).shards[0]
    done = collect(store, shard.num_bytes + 5_000)
    assert (done.going, done.before_bytes < 2 * shard.num_bytes) == ([], True)
    collect(store, done.before_bytes - 1)
    assert [one.digest for one in store.history("a")] == [newer.digest]
    assert snapshot.verify(store.folder(newer))
    assert store.blobs.find(shard.digest)
    assert older.digest != newer.digest


def test_what_killed_processes_left_goes_and_what_is_being_written_stays(store: LocalStore, publish: Publish) -> None:
    publish("a", 1)
    (store.root / "a" / ".staging-left").mkdir()
    (store.root / ".scratch-left").mkdir()
    digests = {kind: digit * 64 for digit, kind in zip("0123", ("old", "young", "held", "unheld"), strict=True)}
    for kind in ("old", "young"):
        store.blobs.partial.mkdir(exist_ok=True)
        (store.blobs.partial / digests[kind]).write_bytes(b"part")
    used_ago(store.blobs.partial / digests["old"], 100_000)
    (store.blobs.folder / digests["unheld"]).write_bytes(b"blob")
    target = store.root / "a" / "held"
    with scratch_folder(store.root) as scratch, store.blobs.writing(digests["held"], 10, target):
        used_ago(store.blobs.partial / digests["held"], 100_000)
        going, staying = fates(collect(store, None))
        assert scratch.exists()
    assert going == {
        ".staging-left": LEFT_BEHIND,
        ".scratch-left": LEFT_BEHIND,
        digests["old"]: LEFT_BEHIND,
        digests["unheld"]: NOT_HELD,
    }
    assert staying.pop(digests["young"]) == NO_BUDGET
    assert staying.pop(digests["held"]) == BEING_WRITTEN
    assert list(staying.values()) == [NO_BUDGET]


def test_a_name_that_is_published_to_is_left_alone(store: LocalStore, publish: Publish, tmp_path: Path) -> None:
    stored = publish("a", 1)
    snapshot.freeze([1], tmp_path / "more")
    manifest = snapshot.read_manifest(tmp_path / "more")
    with store.receiving("a", manifest) as staging:
        assert staging is not None
        assert fates(collect(store, 0)) == ({}, {stored.short_digest: BEING_WRITTEN})
        assert staging.exists()
        for record in manifest.all_files:
            (staging / record.file).write_bytes((tmp_path / "more" / record.file).read_bytes())
    assert snapshot.verify(store.folder(store.find("a")))


def test_a_damaged_snapshot_can_be_collected(store: LocalStore, publish: Publish) -> None:
    stored = publish("a", 1)
    manifest = store.folder(stored) / "manifest.json"
    manifest.chmod(0o644)
    manifest.write_bytes(b"{")
    used_ago(store.folder(stored), 100_000)
    assert set(fates(collect(store, 0))[0]) == {stored.short_digest}


def test_a_scratch_folder_is_abandoned_once_its_maker_is_gone(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as scratch:
        (scratch / "file").touch()
        assert list(abandoned_scratches(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []
    scratch.mkdir()
    assert list(abandoned_scratches(tmp_path)) == [scratch]


def test_two_revisions_that_share_weights_hold_them_once_in_memory(store: LocalStore, tmp_path: Path) -> None:
    num_bytes = 16 << 20
    folders = []
    for revision in range(2):
        folder = tmp_path / f"r{revision}"
        snapshot.freeze({"revision": revision, "weights": np.ones(num_bytes // 8)}, folder)
        folders.append(store.folder(store.publish("embed", folder)))
    assert folders[0] != folders[1]
    with holding(folders[0]) as one, holding(folders[1]) as other:
        for told in (charged(one), charged(other)):
            assert told["pss"] < 0.6 * num_bytes, "each is charged half of what both have"
            assert told["private"] < 0.05 * num_bytes
