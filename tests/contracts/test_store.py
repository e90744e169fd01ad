"""What every store promises."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot import BadNameError, Manifest, SnapshotExistsError, SnapshotNotFoundError
from snapshot.store import MAX_NAME_LENGTH
from tests.contracts.stores import STORES, Rig


@pytest.fixture(params=STORES)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    with STORES[request.param](tmp_path) as made:
        yield made


@pytest.fixture
def made(tmp_path: Path) -> "Made":
    return Made(tmp_path)


class Made:
    """Freezes states of one shard each; equal weights make equal shards."""

    def __init__(self, tmp_path: Path) -> None:
        self._tmp_path = tmp_path

    def __call__(self, value: int, weights: float = 1.0) -> Path:
        folder = self._tmp_path / f"made-{value}"
        snapshot.freeze({"value": value, "weights": np.full(1000, weights)}, folder)
        return folder


def damage(path: Path) -> None:
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def digests(manifest: Manifest) -> set[str]:
    return {record.digest for record in manifest.all_files}


def test_an_empty_store_has_nothing(rig: Rig) -> None:
    assert rig.store.names() == []
    assert rig.store.history("embed") == []
    assert rig.store.prune("embed", keep=1) == []
    with pytest.raises(SnapshotNotFoundError, match="no snapshot of 'embed'"):
        rig.store.find("embed")


def test_what_was_published_is_the_latest_whole_and_thaws(rig: Rig, made: Made) -> None:
    folder = made(1)
    stored = rig.store.publish("embed", folder)
    assert stored == rig.store.find("embed")
    assert stored.is_latest
    assert rig.store.history("embed") == [stored]
    held = rig.folder(stored)
    assert snapshot.verify(held) == snapshot.verify(folder)
    assert stored.digest == snapshot.read_manifest(folder).digest
    assert snapshot.thaw(held, expect_digest=stored.digest).state["value"] == 1


def test_the_newest_is_first_and_older_ones_stay(rig: Rig, made: Made) -> None:
    stored = [rig.store.publish("embed", made(value)) for value in range(3)]
    assert [one.digest for one in rig.store.history("embed")] == [one.digest for one in reversed(stored)]
    assert [one.is_latest for one in rig.store.history("embed")] == [True, False, False]
    found = rig.store.find("embed", stored[0].digest[:20])
    assert (found.digest, found.is_latest) == (stored[0].digest, False)
    assert rig.store.find("embed", stored[0].digest) == found


def test_publishing_an_older_one_again_only_makes_it_the_latest(rig: Rig, made: Made) -> None:
    folder = made(1)
    first = rig.store.publish("embed", folder)
    rig.store.publish("embed", made(2))
    assert rig.store.publish("embed", folder) == first
    assert rig.store.find("embed") == first
    assert len(rig.store.history("embed")) == 2


def test_names_are_those_that_have_snapshots(rig: Rig, made: Made) -> None:
    folder = made(1)
    names = ["a", "b", "blobs", "latest", "partial", "x" * MAX_NAME_LENGTH]
    for name in reversed(names):
        rig.store.publish(name, folder)
    assert rig.store.names() == names
    for name in names:
        assert snapshot.verify(rig.folder(rig.store.find(name)))


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/a", ".hidden", "-x", "a b", "a\n", "a\0", "é", "x" * (MAX_NAME_LENGTH + 1)]
)
def test_bad_names_are_refused_everywhere(rig: Rig, made: Made, name: str) -> None:
    folder = made(1)
    for use in (
        lambda: rig.store.publish(name, folder),
        lambda: rig.store.find(name),
        lambda: rig.store.history(name),
        lambda: rig.store.prune(name, keep=1),
    ):
        with pytest.raises(BadNameError, match="is no name for a snapshot"):
            use()
    assert rig.store.names() == []
    assert rig.blobs() == set()


def test_what_is_not_there_is_an_error_that_lists_what_is(rig: Rig, made: Made) -> None:
    stored = rig.store.publish("other", made(1))
    with pytest.raises(SnapshotNotFoundError, match="it has: other"):
        rig.store.find("embed")
    absent = "0" * 64
    with pytest.raises(SnapshotNotFoundError, match=f"for '{absent}', among: {stored.short_digest}"):
        rig.store.find("other", absent)
    with pytest.raises(SnapshotNotFoundError, match="no snapshot"):
        rig.store.find("other", stored.short_digest + "0" * 48)
    rig.store.publish("other", made(2))
    with pytest.raises(SnapshotNotFoundError, match="several snapshots"):
        rig.store.find("other", "")


def test_a_snapshot_that_is_not_whole_is_not_taken_in(rig: Rig, made: Made, tmp_path: Path) -> None:
    with pytest.raises(SnapshotNotFoundError):
        rig.store.publish("embed", tmp_path)
    folder = made(1)
    (folder / "skeleton").unlink()
    with pytest.raises(snapshot.SizeMismatchError):
        rig.store.publish("embed", folder)
    assert rig.store.names() == []


@pytest.mark.parametrize("file", ["skeleton", "tensors-00001.safetensors"])
def test_a_file_with_other_content_than_its_digest_is_not_taken_in(rig: Rig, made: Made, file: str) -> None:
    folder = made(1)
    damage(folder / file)
    with pytest.raises(snapshot.DigestMismatchError):
        rig.store.publish("embed", folder)
    assert rig.store.names() == []
    manifest = snapshot.read_manifest(folder)
    wrong = next(record.digest for record in manifest.all_files if record.file == file)
    assert wrong not in rig.blobs()


def test_snapshots_hold_equal_files_once_whatever_their_names(rig: Rig, made: Made) -> None:
    folders = [made(1), made(2), made(3, weights=2.0)]
    stored = [rig.store.publish(name, folder) for name, folder in zip(("a", "a", "b"), folders, strict=True)]
    manifests = [snapshot.read_manifest(folder) for folder in folders]
    assert manifests[0].shards[0].digest == manifests[1].shards[0].digest != manifests[2].shards[0].digest
    assert rig.blobs() == set().union(*map(digests, manifests))
    assert len(rig.blobs()) == 5
    for one in stored:
        snapshot.verify(rig.folder(one))


def test_pruning_keeps_the_newest_and_the_latest_and_the_files_they_have(rig: Rig, made: Made) -> None:
    folders = [made(value, weights=float(value % 2)) for value in range(5)]
    stored = [rig.store.publish("embed", folder) for folder in folders]
    rig.store.publish("embed", folders[1])
    removed = rig.store.prune("embed", keep=2)
    assert {one.digest for one in removed} == {stored[0].digest, stored[2].digest}
    assert {one.digest for one in rig.store.history("embed")} == {stored[i].digest for i in (1, 3, 4)}
    for one in rig.store.history("embed"):
        snapshot.verify(rig.folder(one))
    assert [one.digest for one in rig.store.prune("embed", keep=0)] == [stored[4].digest, stored[3].digest]
    assert rig.store.find("embed").digest == stored[1].digest
    snapshot.verify(rig.folder(rig.store.find("embed")))
    with pytest.raises(ValueError, match="cannot keep -1"):
        rig.store.prune("embed", keep=-1)


def test_numbered_snapshots_are_kept_until_their_numbers_go(rig: Rig, made: Made) -> None:
    stored = [rig.store.publish("embed", made(value, weights=float(value))) for value in range(3)]
    assert rig.store.versions("embed") == {}
    rig.store.number("embed", 1, stored[0].digest)
    rig.store.number("embed", 10, stored[1].digest)
    found = rig.store.versions("embed")
    assert sorted(found) == [1, 10]
    assert [rig.store.find("embed", found[number]).digest for number in (1, 10)] == [stored[0].digest, stored[1].digest]
    assert rig.store.names() == ["embed"]
    with pytest.raises(SnapshotExistsError, match="has a version 1 already"):
        rig.store.number("embed", 1, stored[2].digest)
    with pytest.raises(SnapshotNotFoundError):
        rig.store.number("embed", 2, "0" * 64)
    assert rig.store.prune("embed", keep=0) == []
    rig.store.unnumber("embed", 1)
    with pytest.raises(SnapshotNotFoundError, match="no version 1"):
        rig.store.unnumber("embed", 1)
    assert [one.digest for one in rig.store.prune("embed", keep=0)] == [stored[0].digest]
    snapshot.verify(rig.folder(rig.store.find("embed", found[10])))


def test_a_tensor_of_no_bytes_is_kept(rig: Rig, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    snapshot.freeze({"nothing": np.empty((0, 3)), "kept": b""}, folder)
    stored = rig.store.publish("embed", folder)
    assert snapshot.thaw(rig.folder(stored)).state["nothing"].shape == (0, 3)
