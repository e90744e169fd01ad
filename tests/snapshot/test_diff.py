from pathlib import Path

import msgspec
import numpy as np
import pytest

import snapshot
from snapshot.diff import Difference, Placed, compare, diff, shared_bytes


def frozen(folder: Path, state: dict[str, object], *, shard_bytes: int = 1 << 20) -> Path:
    snapshot.freeze(state, folder, shard_bytes=shard_bytes)
    return folder


def between(tmp_path: Path, before: dict[str, object], after: dict[str, object]) -> Difference:
    number = len(list(tmp_path.iterdir()))
    return diff(frozen(tmp_path / f"{number}-before", before), frozen(tmp_path / f"{number}-after", after))


def names(told: Difference) -> dict[str, object]:
    return {
        "added": [one.name for one in told.added],
        "removed": [one.name for one in told.removed],
        "renamed": [(one.before.name, one.after.name) for one in told.renamed],
        "changed": [(one.before.name, *one.aspects) for one in told.changed],
        "same": (told.num_same, told.num_moved),
    }


def nothing(num_same: int, num_moved: int = 0) -> dict[str, object]:
    return {"added": [], "removed": [], "renamed": [], "changed": [], "same": (num_same, num_moved)}


A, B = np.arange(100.0), np.ones((4, 5))


def test_equal_states_are_the_same_and_share_every_file(tmp_path: Path) -> None:
    told = between(tmp_path, {"a": A, "b": B}, {"a": A, "b": B})
    assert names(told) == nothing(2)
    assert told.shared_bytes == told.before_bytes == told.after_bytes
    assert (told.skeleton_changed, told.files, told.python, told.libraries) == (False, [], None, {})


def test_every_change_of_a_tensor_is_named(tmp_path: Path) -> None:
    before = {"gone": np.zeros(7), "content": A, "dtype": B, "shape": np.zeros((2, 3)), "all": A * 7, "kept": A * 3}
    after = {
        "content": A + 1,
        "dtype": B.view(np.int64),
        "shape": np.zeros((3, 2)),
        "all": np.ones(3, np.int8),
        "kept": A * 3,
        "new": np.zeros(9),
    }
    told = names(between(tmp_path, before, after))
    assert told.pop("changed") == [
        ("content", "content"),
        ("dtype", "dtype"),
        ("shape", "shape"),
        ("all", "dtype", "shape", "content"),
    ]
    assert told == {"added": ["new"], "removed": ["gone"], "renamed": [], "same": (1, 1)}


def test_a_tensor_under_another_name_was_renamed_and_each_only_once(tmp_path: Path) -> None:
    told = names(between(tmp_path, {"x": A, "y": A.copy(), "z": B}, {"p": A, "z": B}))
    assert told["renamed"] == [("x", "p")]
    assert (told["removed"], told["added"]) == (["y"], [])


def test_shards_that_both_have_are_shared_though_others_changed(tmp_path: Path) -> None:
    sides = [
        frozen(tmp_path / name, {"a": A, "b": B + number}, shard_bytes=800)
        for number, name in enumerate(("before", "after"))
    ]
    told = diff(*sides)
    assert names(told) == {**nothing(1), "changed": [("b", "content")]}
    manifest = snapshot.read_manifest(sides[0])
    assert told.shared_bytes == manifest.shards[0].num_bytes + manifest.skeleton.num_bytes


def test_objects_and_versions_are_compared(tmp_path: Path) -> None:
    told = between(tmp_path, {"a": A, "size": 1}, {"a": A, "size": 2})
    assert names(told) == nothing(1)
    assert told.skeleton_changed
    before = snapshot.read_manifest(frozen(tmp_path / "versions", {"a": A}))
    after = msgspec.structs.replace(before, python="3.99.0", libraries={"torch": "2.0"})
    told = compare((before, after), (undigested, undigested))
    assert told.python == (before.python, "3.99.0")
    assert told.libraries == {"numpy": (np.__version__, None), "torch": (None, "2.0")}


def undigested(placed: Placed) -> str:
    raise AssertionError(f"{placed.tensor.name} was read, though the manifests tell")


def test_nothing_is_read_where_the_files_are_the_same(tmp_path: Path) -> None:
    manifest = snapshot.read_manifest(frozen(tmp_path / "one", {"a": A, "b": B}))
    assert compare((manifest, manifest), (undigested, undigested)).num_same == 2


def test_shared_bytes_count_each_file_once(tmp_path: Path) -> None:
    manifest = snapshot.read_manifest(frozen(tmp_path / "one", {"a": A}))
    num_bytes = sum(record.num_bytes for record in manifest.all_files)
    assert shared_bytes(manifest, manifest, manifest) == num_bytes
    assert shared_bytes(manifest) == 0


def test_a_folder_without_a_snapshot_is_named(tmp_path: Path) -> None:
    with pytest.raises(snapshot.SnapshotNotFoundError, match="nowhere"):
        diff(frozen(tmp_path / "one", {"a": A}), tmp_path / "nowhere")
