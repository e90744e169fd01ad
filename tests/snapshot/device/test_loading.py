from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

import snapshot
from snapshot.device.loading import reads_direct, to_devices
from snapshot.errors import DeviceError, DeviceMissingError, SizeMismatchError, ThawError
from snapshot.loader import Facts, LoadMode
from snapshot.manifest import MANIFEST_FILE, Shard
from snapshot.manifest_reading import read_manifest
from tests.snapshot.device.fakes import FakeDevice, content_of


class Look:
    """Looks into its tensor while it is rebuilt."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.tensor = state["tensor"]
        self.total = float(self.tensor.sum())


def state() -> dict[str, Any]:
    torch.manual_seed(1)
    shared = torch.randn(1000, 30)
    net = torch.nn.Sequential(torch.nn.Linear(30, 50), torch.nn.BatchNorm1d(50))
    return {
        "net": net,
        "tied": net[0].weight,
        "slice": shared[10:20],
        "column": shared[:, 3],
        "half": torch.randn(5, 7).to(torch.bfloat16),
        "array": np.arange(100.0),
        "none": torch.empty(0, 4),
        "scalar": torch.tensor(3),
        "look": Look(torch.full((5000,), 2.0)),
    }


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    x = torch.randn(6, 30)
    assert torch.equal(one["net"].eval()(x), other["net"].eval()(x))
    for name in ("slice", "column", "half", "none", "scalar"):
        assert one[name].dtype == other[name].dtype
        assert torch.equal(one[name], other[name])
    assert np.array_equal(one["array"], other["array"])
    assert other["tied"] is other["net"][0].weight
    other["slice"][0, 3] = 77
    assert other["column"][10] == 77
    assert other["look"].total == 10_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    snapshot.freeze(state(), tmp_path / "s", shard_bytes=50_000)
    return tmp_path / "s"


def on(folder: Path, device: str, chosen: Callable[[str], bool] = lambda name: True) -> Path:
    """Change the manifest to one of tensors that were frozen on `device`."""
    manifest = read_manifest(folder)
    views = tuple(
        msgspec.structs.replace(view, device=device)
        if view.form in ("torch", "parameter") and chosen(view.name)
        else view
        for view in manifest.views
    )
    (folder / MANIFEST_FILE).write_bytes(msgspec.structs.replace(manifest, views=views).encode())
    return folder


def test_a_whole_graph_comes_by_way_of_the_device(folder: Path) -> None:
    device = FakeDevice()
    thawed = snapshot.thaw(folder, device=device)
    same(state(), thawed.state)
    assert list(thawed.timings) == ["check", "map", "skeleton", "rebuild", "device"]
    assert device.calls.count("allocate") == len(thawed.manifest.shards)
    weight = thawed.state["net"][0].weight
    assert type(weight) is torch.nn.Parameter
    assert weight.requires_grad


def test_memory_is_freed_with_the_graph(folder: Path) -> None:
    device = FakeDevice()
    thawed = snapshot.thaw(folder, device=device)
    assert device.num_blocks == 0  # the blocks are gone, their storages live on in the tensors
    same(state(), thawed.state)


def test_tensors_of_a_device_thaw_to_the_cpu_when_asked(folder: Path) -> None:
    thawed = snapshot.thaw(on(folder, "cuda:0"), device="cpu")
    same(state(), thawed.state)
    assert thawed.state["net"][0].weight.device.type == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("option", [{}, {"device": "cuda"}])
def test_a_device_that_is_not_here_is_named(folder: Path, option: dict[str, str]) -> None:
    if not option:
        on(folder, "cuda:0", lambda name: name == "half")
    with pytest.raises(DeviceMissingError, match=r"to be loaded to 'cuda(:0)?', and .* thaw to device 'cpu' instead"):
        snapshot.thaw(folder, **option)


def test_only_what_was_on_a_device_goes_there(folder: Path) -> None:
    manifest = read_manifest(on(folder, "cuda:1", lambda name: name.startswith("net")))
    opened = {}

    def opening(name: str) -> FakeDevice:
        opened[name] = FakeDevice()
        return opened[name]

    stored = [tensor for shard in manifest.shards for tensor in shard.tensors]
    with to_devices(folder, manifest, opening=opening) as devices:
        for view in manifest.views:
            storage = devices.storage(view.tensor, "cuda:1")
            goes = view.name.startswith("net") and view.form in ("torch", "parameter")
            assert devices.device_of(view) == ("cuda:1" if goes else "cpu")
            assert (storage is not None) == goes
            if goes:
                assert len(content_of(storage)) == stored[view.tensor].num_bytes
        devices.wait()
    assert opened.keys() == {"cuda:1"}
    assert sum(copy.num_bytes for copy in opened["cuda:1"].copied) < sum(tensor.num_bytes for tensor in stored) / 2


def test_each_device_has_a_load_of_its_own(folder: Path) -> None:
    on(folder, "cuda:0", lambda name: name.startswith("net.0"))
    manifest = read_manifest(on(folder, "cuda:1", lambda name: name == "half"))
    opened = []
    with to_devices(folder, manifest, opening=lambda name: opened.append(name) or FakeDevice()) as devices:
        devices.wait()
    assert sorted(opened) == ["cuda:0", "cuda:1"]


@pytest.mark.parametrize("operation", ["free_bytes", "allocate", "pin", "copy", "record", "wait"])
def test_a_device_that_fails_is_named_by_its_own_error(folder: Path, operation: str) -> None:
    device = FakeDevice(fail={operation: 0})
    with pytest.raises(DeviceError, match=operation):
        snapshot.thaw(folder, device=device)
    assert device.num_blocks == 0


def test_a_graph_that_cannot_be_rebuilt_gives_the_load_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot.freeze([torch.ones(1_000_000), Look(torch.ones(2)), torch.ones(1_000_000)], tmp_path / "s")
    monkeypatch.setattr(Look, "__setstate__", lambda self, state: 1 / 0)
    device = FakeDevice()
    with pytest.raises(ThawError, match="division by zero"):
        snapshot.thaw(tmp_path / "s", device=device)
    assert device.num_blocks == 0
    assert device.calls[-1] == "release_pinned"


class Counting:
    """Reads shards, and says which."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def shard(self, path: Path, shard: Shard) -> memoryview:
        self.files.append(shard.file)
        return memoryview(bytearray(path.read_bytes()))


def test_what_goes_to_a_device_whole_is_not_read_on_the_cpu_too(tmp_path: Path) -> None:
    snapshot.freeze([torch.ones(50_000), np.ones(50_000), torch.ones(50_000)], tmp_path / "s", shard_bytes=300_000)
    manifest = read_manifest(tmp_path / "s")
    counting = Counting()
    thawed = snapshot.thaw(tmp_path / "s", device=FakeDevice(), loader=counting)
    assert len(manifest.shards) == 3
    assert counting.files == [manifest.shards[1].file]
    assert [float(part.sum()) for part in thawed.state] == [50_000] * 3


@pytest.mark.parametrize(
    ("asked", "num_cached_bytes", "is_direct"),
    [("auto", 0, True), ("auto", 60, False), ("direct", 100, True), ("read", 0, False), ("map", 0, False)],
)
def test_what_is_cold_and_larger_than_memory_is_read_past_the_page_cache(
    asked: LoadMode, num_cached_bytes: int, is_direct: bool
) -> None:
    facts = Facts("local", num_bytes=100, cached_bytes=num_cached_bytes, available=lambda: 50)
    assert reads_direct(asked, facts) == is_direct


def test_direct_reads_bring_the_same(folder: Path) -> None:
    same(state(), snapshot.thaw(folder, device=FakeDevice(), load="direct").state)


def test_a_shard_that_is_gone(folder: Path) -> None:
    manifest = read_manifest(folder)
    (folder / manifest.shards[-1].file).unlink()
    with pytest.raises(SizeMismatchError), to_devices(folder, manifest, FakeDevice()):
        raise AssertionError("not reached")


def test_who_stays_on_the_cpu_pays_nothing_for_devices(tmp_path: Path, fresh_process: Callable[..., Any]) -> None:
    snapshot.freeze({"array": np.ones(10)}, tmp_path / "s")
    program = """if True:
        import json, pathlib, sys, snapshot
        snapshot.thaw(pathlib.Path(sys.argv[1]))
        print(json.dumps([name for name in sys.modules if name.startswith(("snapshot.device", "torch"))]))
    """
    assert fresh_process(program, tmp_path / "s") == []
