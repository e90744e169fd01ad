import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from snapshot.device import load_files, load_module
from snapshot.errors import BadHeaderError, DeviceError, SizeMismatchError, ThawError, UnsupportedDtypeError
from tests.snapshot.device.fakes import FakeDevice


class Net(torch.nn.Module):
    def __init__(self, *, persistent: bool = True) -> None:
        super().__init__()
        self.first = torch.nn.Linear(30, 20)
        self.second = torch.nn.Linear(20, 10, dtype=torch.bfloat16)
        self.register_buffer("steps", torch.arange(7), persistent=persistent)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).to(torch.bfloat16)) + self.steps.sum()


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Net, Path]:
    net = Net()
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    return net, tmp_path / "net.safetensors"


def test_files_of_any_writer_come_whole(tmp_path: Path) -> None:
    expected = [
        {f"small.{number}": torch.randn(number) for number in range(40)},
        {
            "large": torch.randn(3_000_000),
            "none": torch.empty(0, 3),
            "one": torch.tensor(5),
            "odd": torch.ones(3).bool(),
        },
    ]
    paths = [tmp_path / "1.safetensors", tmp_path / "2.safetensors"]
    for tensors, path in zip(expected, paths, strict=True):
        save_file(tensors, path)
    device = FakeDevice()
    loaded = load_files(paths, device)
    assert loaded.keys() == expected[0].keys() | expected[1].keys()
    for name, tensor in (expected[0] | expected[1]).items():
        assert loaded[name].dtype == tensor.dtype
        assert loaded[name].data_ptr() % tensor.element_size() == 0
        assert torch.equal(loaded[name], tensor)
    assert device.calls.count("allocate") == 2
    assert device.calls[-1] == "release_pinned"


def test_a_module_is_built_on_meta_and_gets_what_was_loaded(saved: tuple[Net, Path]) -> None:
    net, path = saved
    built_on = []

    def build() -> Net:
        built_on.append(torch.empty(1).device.type)
        return Net()

    loaded = load_module(build, [path], FakeDevice())
    assert built_on == ["meta"]
    x = torch.randn(4, 30)
    assert torch.equal(loaded(x), net(x))
    assert all(type(parameter) is torch.nn.Parameter and parameter.requires_grad for parameter in loaded.parameters())


def test_a_part_that_is_in_no_file_is_named(tmp_path: Path) -> None:
    save_file(Net(persistent=False).state_dict(), tmp_path / "net.safetensors")
    with pytest.raises(ThawError, match="Net has parts that are in no file: steps; save them too"):
        load_module(lambda: Net(persistent=False), [tmp_path / "net.safetensors"], FakeDevice())


def test_a_module_that_the_files_do_not_fit(saved: tuple[Net, Path]) -> None:
    device = FakeDevice()
    with pytest.raises(ThawError, match=r"do not fit Linear: (.|\n)*first\.weight"):
        load_module(lambda: torch.nn.Linear(2, 2), [saved[1]], device)
    assert device.num_blocks == 0


def test_what_build_raises_gives_the_load_up(saved: tuple[Net, Path]) -> None:
    def build() -> Net:
        raise RuntimeError("no such model")

    device = FakeDevice()
    with pytest.raises(RuntimeError, match="no such model"):
        load_module(build, [saved[1]], device)
    assert device.num_blocks == 0


def test_a_name_in_two_files(saved: tuple[Net, Path]) -> None:
    with pytest.raises(BadHeaderError, match="which an earlier file holds too"):
        load_files([saved[1], saved[1]], FakeDevice())


def test_a_type_that_torch_has_not(tmp_path: Path) -> None:
    header = json.dumps({"t": {"dtype": "F99", "shape": [2], "data_offsets": [0, 1]}}).encode()
    (tmp_path / "f99.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    device = FakeDevice()
    with pytest.raises(UnsupportedDtypeError, match="'t' is F99"):
        load_files([tmp_path / "f99.safetensors"], device)
    assert device.num_blocks == 0


def test_a_file_cut_short(saved: tuple[Net, Path]) -> None:
    saved[1].write_bytes(saved[1].read_bytes()[:-1])
    with pytest.raises(SizeMismatchError):
        load_files([saved[1]], FakeDevice())


def test_a_device_that_fails(saved: tuple[Net, Path]) -> None:
    device = FakeDevice(fail={"wait": 0})
    with pytest.raises(DeviceError, match="wait failed"):
        load_files([saved[1]], device)
    assert device.num_blocks == 0
