import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapshot
from snapshot.manifest import SKELETON_FILE

Fresh = Callable[..., Any]


def private_bytes_of(folder: Path) -> int | None:
    """Memory of this process's own in the mappings of the snapshot's files; None when nothing of it is mapped."""
    total, inside = None, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()[0]
        if "-" in head and not head.endswith(":"):
            inside = str(folder) in line
        elif inside and head == "Private_Dirty:":
            total = (total or 0) + int(line.split()[1]) * 1024
    return total


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    snapshot.freeze({"weights": np.ones(1_000_000), "plain": [1, "two", {3}]}, tmp_path / "s", meta={"k": "v"})
    return tmp_path / "s"


def test_what_came_back_and_what_it_took(folder: Path) -> None:
    thawed = snapshot.thaw(folder)
    assert thawed.state["plain"] == [1, "two", {3}]
    assert thawed.manifest == snapshot.read_manifest(folder)
    assert thawed.mapped_bytes == (folder / "tensors-00001.safetensors").stat().st_size
    assert list(thawed.timings) == ["check", "map", "skeleton", "rebuild"]
    assert all(ms >= 0 for ms in thawed.timings.values())


def test_memory_is_private_only_where_it_is_written(folder: Path) -> None:
    before = (folder / "tensors-00001.safetensors").read_bytes()
    state = snapshot.thaw(folder, load="map").state
    assert state["weights"].sum() == 1_000_000
    assert private_bytes_of(folder) == 0
    state["weights"][5] = 2
    assert private_bytes_of(folder) == os.sysconf("SC_PAGE_SIZE")
    assert (folder / "tensors-00001.safetensors").read_bytes() == before
    assert snapshot.thaw(folder).state["weights"][5] == 1


def test_no_descriptor_stays_open(folder: Path) -> None:
    state = snapshot.thaw(folder).state
    opened = [
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    ]
    assert state is not None
    assert not [path for path in opened if str(folder) in path]


def test_the_mapping_goes_with_the_last_array(folder: Path) -> None:
    state = snapshot.thaw(folder).state
    part = state["weights"][10:20]
    del state
    gc.collect()
    assert private_bytes_of(folder) is not None
    assert part.sum() == 10
    del part
    gc.collect()
    assert private_bytes_of(folder) is None


def test_the_mapping_outlives_the_folder(folder: Path) -> None:
    state = snapshot.thaw(folder).state
    for file in folder.iterdir():
        file.unlink()
    assert state["weights"].sum() == 1_000_000


def test_collection_is_left_as_it_was_found(folder: Path) -> None:
    assert gc.isenabled()
    snapshot.thaw(folder)
    assert gc.isenabled()
    gc.disable()
    try:
        snapshot.thaw(folder)
        assert not gc.isenabled()
    finally:
        gc.enable()
    (folder / SKELETON_FILE).unlink()
    with pytest.raises(snapshot.SnapshotError):
        snapshot.thaw(folder)
    assert gc.isenabled()


def test_an_existing_folder_is_never_written_over(folder: Path, tmp_path: Path) -> None:
    digest = snapshot.read_manifest(folder).digest
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    for target in (folder, tmp_path / "empty", tmp_path / "dangling"):
        with pytest.raises(snapshot.SnapshotExistsError, match="never written over"):
            snapshot.freeze([], target)
    assert snapshot.read_manifest(folder).digest == digest


def test_meta_must_be_json_and_nothing_is_left_when_it_is_not(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        snapshot.freeze([], tmp_path / "s", meta={"what": object()})
    assert list(tmp_path.iterdir()) == []


def test_large_states_are_split_into_shards(tmp_path: Path) -> None:
    arrays = [np.full(100, i) for i in range(10)]
    manifest = snapshot.freeze(arrays, tmp_path / "s", shard_bytes=2000)
    assert [len(shard.tensors) for shard in manifest.shards] == [2, 2, 2, 2, 2]
    snapshot.verify(tmp_path / "s")
    back = snapshot.thaw(tmp_path / "s").state
    assert all((one == other).all() for one, other in zip(back, arrays, strict=True))


def test_st_08_a_state_whose_header_no_reader_would_open_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    state = {"n" * 1_000_000 + str(i): np.zeros(1) for i in range(101)}
    with pytest.raises(snapshot.HeaderTooLargeError):
        snapshot.freeze(state, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_a_lambda_and_a_class_of_the_main_program_come_back_in_another_process(
    tmp_path: Path, fresh_process: Fresh
) -> None:
    maker = """
import json, sys, pathlib, snapshot
class Local:
    def __init__(self, n): self.n = n
    def double(self): return self.n * 2
offset = 10
snapshot.freeze({"object": Local(4), "f": lambda x: x + offset}, pathlib.Path(sys.argv[1]))
print(json.dumps(None))
"""
    user = """
import json, sys, pathlib, snapshot
state = snapshot.thaw(pathlib.Path(sys.argv[1])).state
print(json.dumps([state["object"].double(), state["f"](5)]))
"""
    fresh_process(maker, tmp_path / "s")
    assert fresh_process(user, tmp_path / "s") == [8, 15]


def test_importing_and_thawing_load_no_library_that_the_graph_does_without(
    tmp_path: Path, fresh_process: Fresh
) -> None:
    snapshot.freeze({"a": [1, 2]}, tmp_path / "plain")
    snapshot.freeze({"a": np.arange(3)}, tmp_path / "numpy")
    program = """
import json, sys, pathlib, snapshot
heavy = {"numpy", "torch", "onnxruntime", "cloudpickle"}
seen = [sorted(heavy & set(sys.modules))]
for folder in sys.argv[1:]:
    snapshot.thaw(pathlib.Path(folder))
    seen.append(sorted(heavy & set(sys.modules)))
print(json.dumps(seen))
"""
    assert fresh_process(program, tmp_path / "plain", tmp_path / "numpy") == [[], [], ["numpy"]]
    assert "cloudpickle" in sys.modules
