from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot.manifest import Shard


class InMemory:
    """Reads whole files, and remembers which."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def shard(self, path: Path, shard: Shard) -> memoryview:
        self.asked.append(shard.file)
        return memoryview(bytearray(path.read_bytes()))


class Spoiled(InMemory):
    """Brings another head than the file's."""

    def shard(self, path: Path, shard: Shard) -> memoryview:
        memory = super().shard(path, shard)
        memory[0] ^= 1
        return memory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    state = {"a": np.arange(100.0), "b": np.arange(7), "empty": np.empty((0, 3))}
    snapshot.freeze(state, tmp_path / "s", shard_bytes=64)
    return tmp_path / "s"


def test_a_loader_is_asked_for_each_shard_in_load_order(folder: Path) -> None:
    loader = InMemory()
    state = snapshot.thaw(folder, loader=loader).state
    assert loader.asked == [shard.file for shard in snapshot.read_manifest(folder).shards]
    assert np.array_equal(state["a"], np.arange(100.0))
    state["b"][0] = 5
    assert snapshot.thaw(folder).state["b"][0] == 0


def test_what_a_loader_brings_is_checked(folder: Path) -> None:
    with pytest.raises(snapshot.DamagedError, match="header"):
        snapshot.thaw(folder, loader=Spoiled())
