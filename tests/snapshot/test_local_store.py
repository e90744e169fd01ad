import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot import LocalStore, SnapshotNotFoundError


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def made(tmp_path: Path, value: object) -> Path:
    folder = tmp_path / f"made-{value}"
    snapshot.freeze({"value": value, "weights": np.full(1000, 1.0)}, folder)
    return folder


def test_a_snapshot_lies_under_its_name_and_the_beginning_of_its_digest(store: LocalStore, tmp_path: Path) -> None:
    stored = store.publish("embed", made(tmp_path, 1))
    assert store.folder(stored) == store.root / "embed" / stored.digest[:16]
    assert (store.root / "embed" / "latest").resolve() == store.folder(stored)


def test_publishing_links_files_instead_of_copying_them(store: LocalStore, tmp_path: Path) -> None:
    folder = made(tmp_path, 1)
    stored = store.publish("embed", folder)
    for record in snapshot.read_manifest(folder).all_files:
        assert (store.folder(stored) / record.file).samefile(folder / record.file)
        assert (store.folder(stored) / record.file).samefile(store.blobs.folder / record.digest)


def test_two_revisions_share_the_file_of_equal_shards(store: LocalStore, tmp_path: Path) -> None:
    first, second = (store.publish(name, made(tmp_path, name)) for name in ("a", "b"))
    shards = [store.folder(stored) / "tensors-00001.safetensors" for stored in (first, second)]
    assert shards[0].stat().st_ino == shards[1].stat().st_ino
    assert shards[0].stat().st_mode & 0o777 == 0o444


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_publishing_copies_where_links_cannot_be_made(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    stored = store.publish("embed", made(tmp_path, 1))
    again = store.publish("again", made(tmp_path, 2))
    monkeypatch.undo()
    for one in (stored, again):
        assert snapshot.verify(store.folder(one))
    assert store.prune("embed", keep=1) == []
    assert list(store.blobs.folder.iterdir()) == [], "no snapshot needs them"
    assert snapshot.verify(store.folder(again))


def test_a_blob_that_was_cut_short_is_replaced(store: LocalStore, tmp_path: Path) -> None:
    manifest = snapshot.read_manifest(made(tmp_path, 1))
    blob = store.blobs.folder / manifest.shards[0].digest
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"short")
    stored = store.publish("embed", tmp_path / "made-1")
    assert snapshot.verify(store.folder(stored))
    assert blob.stat().st_size == manifest.shards[0].num_bytes


def test_a_snapshot_that_was_not_taken_in_leaves_nothing(store: LocalStore, tmp_path: Path) -> None:
    folder = made(tmp_path, 1)
    (folder / "skeleton").unlink()
    with pytest.raises(snapshot.SizeMismatchError):
        store.publish("embed", folder)
    assert [path.name for path in (store.root / "embed").iterdir()] == [".lock"]


def test_a_folder_of_another_snapshot_is_not_taken_for_this_one(store: LocalStore, tmp_path: Path) -> None:
    stored = store.publish("embed", made(tmp_path, 1))
    other = made(tmp_path, 2)
    target = store.root / "embed" / snapshot.read_manifest(other).short_digest
    store.folder(stored).rename(target)
    with pytest.raises(snapshot.SnapshotExistsError, match="begins like"):
        store.publish("embed", other)


def test_a_latest_that_is_gone_is_not_replaced_by_an_older_one(store: LocalStore, tmp_path: Path) -> None:
    older, newer = (store.publish("embed", made(tmp_path, value)) for value in range(2))
    store.folder(newer).rename(tmp_path / "elsewhere")
    with pytest.raises(SnapshotNotFoundError, match=f"for 'latest', among: {older.short_digest}"):
        store.find("embed")
    assert not store.find("embed", older.digest).is_latest


def test_what_is_pruned_while_it_is_mapped_lives_on(store: LocalStore, tmp_path: Path) -> None:
    first, second = (store.publish("embed", made(tmp_path, value)) for value in range(2))
    mapped = snapshot.thaw(store.folder(first)).state
    assert [one.digest for one in store.prune("embed", keep=1)] == [first.digest]
    assert mapped["weights"].sum() == 1000
    assert snapshot.verify(store.folder(second))


def test_pruning_removes_the_blobs_that_no_snapshot_has(store: LocalStore, tmp_path: Path) -> None:
    for value in range(3):
        with_own_weights = tmp_path / f"own-{value}"
        snapshot.freeze(np.full(1000, float(value)), with_own_weights)
        store.publish("embed", with_own_weights)
        for path in sorted(with_own_weights.iterdir()):
            path.unlink()
    store.prune("embed", keep=1)
    kept = snapshot.read_manifest(store.folder(store.find("embed")))
    assert {path.name for path in store.blobs.folder.iterdir()} == {record.digest for record in kept.all_files}


def test_pruning_removes_snapshots_of_an_older_format(store: LocalStore, tmp_path: Path) -> None:
    snapshot.freeze([1], tmp_path / "a")
    older = store.folder(store.publish("x", tmp_path / "a"))
    manifest = older / "manifest.json"
    content = manifest.read_bytes().replace(b'"format_version":2', b'"format_version":1')
    manifest.unlink()
    manifest.write_bytes(content)
    assert store.prune("x", keep=5) == []
    assert older.is_dir(), "it is the latest"
    snapshot.freeze([2], tmp_path / "b")
    newer = store.publish("x", tmp_path / "b")
    assert store.history("x") == [newer]
    store.prune("x", keep=5)
    assert not older.exists()
    assert store.find("x") == newer


def test_pruning_removes_what_killed_publishers_left(store: LocalStore, tmp_path: Path) -> None:
    stored = store.publish("embed", made(tmp_path, 1))
    home = store.root / "embed"
    (home / ".staging-0123").mkdir()
    (home / ".staging-0123" / "manifest.json").write_bytes(b"{")
    (home / ".staging-4567").symlink_to("nowhere")
    assert store.history("embed") == [stored]
    assert store.prune("embed", keep=1) == []
    assert sorted(path.name for path in home.iterdir()) == [".lock", stored.short_digest, "latest"]


def test_publishing_and_pruning_at_once_always_leaves_a_whole_latest(store: LocalStore, tmp_path: Path) -> None:
    folders = [made(tmp_path, value) for value in range(6)]
    failures: list[BaseException] = []

    def guarded(work: object) -> None:
        try:
            for _ in range(5):
                work()  # type: ignore[operator]
        except BaseException as error:
            failures.append(error)

    jobs = [lambda folder=folder: store.publish("embed", folder) for folder in folders]
    jobs += [lambda: store.prune("embed", keep=1)] * 2
    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert snapshot.verify(store.folder(store.find("embed")))
    store.prune("embed", keep=0)
    assert [one.is_latest for one in store.history("embed")] == [True]
