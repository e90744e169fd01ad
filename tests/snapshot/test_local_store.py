import os
import threading
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot import BadNameError, LocalStore, SnapshotNotFoundError, Store
from snapshot.store import MAX_NAME_LENGTH


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def made(tmp_path: Path, value: object) -> Path:
    folder = tmp_path / f"made-{value}"
    snapshot.freeze({"value": value, "weights": np.full(1000, 1.0)}, folder)
    return folder


def test_a_local_store_is_a_store(store: LocalStore) -> None:
    protocol: Store = store
    assert protocol.names() == []


def test_the_published_snapshot_is_the_latest_and_thaws(store: LocalStore, tmp_path: Path) -> None:
    folder = made(tmp_path, 1)
    stored = store.publish("embed", folder)
    assert stored == store.find("embed")
    assert stored.is_latest
    assert stored.folder == store.root / "embed" / stored.digest[:16]
    assert (store.root / "embed" / "latest").resolve() == stored.folder
    assert snapshot.verify(stored.folder).digest == stored.digest == snapshot.verify(folder).digest
    assert snapshot.thaw(stored.folder, expect_digest=stored.digest).state["value"] == 1


def test_publishing_links_files_instead_of_copying_them(store: LocalStore, tmp_path: Path) -> None:
    folder = made(tmp_path, 1)
    stored = store.publish("embed", folder)
    for file in folder.iterdir():
        assert (stored.folder / file.name).samefile(file)


def test_publishing_copies_where_links_cannot_be_made(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("another file system")

    monkeypatch.setattr(os, "link", refuse)
    stored = store.publish("embed", made(tmp_path, 1))
    assert snapshot.verify(stored.folder)


def test_the_newest_is_first_and_older_ones_stay(store: LocalStore, tmp_path: Path) -> None:
    stored = [store.publish("embed", made(tmp_path, value)) for value in range(3)]
    assert [one.digest for one in store.history("embed")] == [one.digest for one in reversed(stored)]
    assert [one.is_latest for one in store.history("embed")] == [True, False, False]
    assert store.find("embed", stored[0].digest[:6]).digest == stored[0].digest
    assert store.find("embed", stored[0].digest).digest == stored[0].digest


def test_publishing_an_older_one_again_only_makes_it_the_latest(store: LocalStore, tmp_path: Path) -> None:
    first = store.publish("embed", made(tmp_path, 1))
    store.publish("embed", made(tmp_path, 2))
    again = store.publish("embed", first.folder)
    assert again == first
    assert store.find("embed") == first
    assert len(store.history("embed")) == 2


def test_names_are_those_that_have_snapshots(store: LocalStore, tmp_path: Path) -> None:
    folder = made(tmp_path, 1)
    for name in ("b", "a", "latest", "x" * MAX_NAME_LENGTH):
        store.publish(name, folder)
    (store.root / "empty").mkdir()
    (store.root / "a file").touch()
    assert store.names() == ["a", "b", "latest", "x" * MAX_NAME_LENGTH]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/a", ".hidden", "-x", "a b", "a\n", "a\0", "é", "x" * (MAX_NAME_LENGTH + 1)]
)
def test_bad_names_are_refused_everywhere(store: LocalStore, tmp_path: Path, name: str) -> None:
    folder = made(tmp_path, 1)
    for use in (
        lambda: store.publish(name, folder),
        lambda: store.find(name),
        lambda: store.history(name),
        lambda: store.prune(name, keep=1),
    ):
        with pytest.raises(BadNameError, match="is no name for a snapshot"):
            use()
    assert not store.root.exists()


def test_what_is_not_there_is_an_error_that_lists_what_is(store: LocalStore, tmp_path: Path) -> None:
    with pytest.raises(SnapshotNotFoundError, match="no snapshot of 'embed'; it has: nothing"):
        store.find("embed")
    stored = store.publish("other", made(tmp_path, 1))
    with pytest.raises(SnapshotNotFoundError, match="it has: other"):
        store.find("embed")
    absent = "0" * 64
    with pytest.raises(SnapshotNotFoundError, match=f"for '{absent}', among: {stored.digest[:16]}"):
        store.find("other", absent)
    same_start = stored.digest[:16] + "0" * 48
    with pytest.raises(SnapshotNotFoundError, match="no snapshot"):
        store.find("other", same_start)
    store.publish("other", made(tmp_path, 2))
    with pytest.raises(SnapshotNotFoundError, match="several snapshots"):
        store.find("other", "")
    assert store.history("embed") == []


def test_a_snapshot_that_is_not_whole_is_not_taken_in(store: LocalStore, tmp_path: Path) -> None:
    with pytest.raises(SnapshotNotFoundError):
        store.publish("embed", tmp_path)
    folder = made(tmp_path, 1)
    (folder / "skeleton").unlink()
    with pytest.raises(snapshot.SizeMismatchError):
        store.publish("embed", folder)
    assert store.names() == []
    assert [path.name for path in (store.root / "embed").iterdir()] == [".lock"]


def test_a_folder_of_another_snapshot_is_not_taken_for_this_one(store: LocalStore, tmp_path: Path) -> None:
    stored = store.publish("embed", made(tmp_path, 1))
    other = made(tmp_path, 2)
    target = store.root / "embed" / snapshot.read_manifest(other).short_digest
    stored.folder.rename(target)
    with pytest.raises(snapshot.SnapshotExistsError, match="begins like"):
        store.publish("embed", other)


def test_pruning_keeps_the_newest_and_the_latest(store: LocalStore, tmp_path: Path) -> None:
    stored = [store.publish("embed", made(tmp_path, value)) for value in range(5)]
    store.publish("embed", stored[1].folder)
    mapped = snapshot.thaw(stored[0].folder).state
    removed = store.prune("embed", keep=2)
    assert {one.digest for one in removed} == {stored[0].digest, stored[2].digest}
    assert {one.digest for one in store.history("embed")} == {stored[i].digest for i in (1, 3, 4)}
    assert mapped["weights"].sum() == 1000, "what is mapped lives on"
    assert [one.digest for one in store.prune("embed", keep=0)] == [stored[4].digest, stored[3].digest]
    assert store.find("embed").digest == stored[1].digest
    assert store.prune("nothing", keep=1) == []
    with pytest.raises(ValueError, match="cannot keep -1"):
        store.prune("embed", keep=-1)


def test_pruning_removes_what_killed_publishers_left(store: LocalStore, tmp_path: Path) -> None:
    stored = store.publish("embed", made(tmp_path, 1))
    home = store.root / "embed"
    (home / ".staging-0123").mkdir()
    (home / ".staging-0123" / "manifest.json").write_bytes(b"{")
    (home / ".staging-4567").symlink_to("nowhere")
    assert store.history("embed") == [stored]
    assert store.prune("embed", keep=1) == []
    assert sorted(path.name for path in home.iterdir()) == [".lock", stored.folder.name, "latest"]


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
    assert snapshot.verify(store.find("embed").folder)
    store.prune("embed", keep=0)
    assert [one.is_latest for one in store.history("embed")] == [True]
