import argparse
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import snapshot
from snapshot.errors import ImportRefused, UnsupportedDtypeError
from snapshot.imports import Imported, importing
from tests.snapshot.imports.folders import values


class Custom:
    """Something that a file cannot hold without code."""


def saved(tmp_path: Path, content: Any, name: str = "model.pt", **options: Any) -> Path:
    torch.save(content, tmp_path / name, **options)
    return tmp_path / name


def import_model(source: Path, **options: str) -> tuple[snapshot.Weights, Imported]:
    folder = source.parent / "snapshot"
    imported = importing.import_model(source, folder, **options)
    snapshot.verify(folder)
    return snapshot.open_weights(folder), imported


def refused(source: Path, **options: str) -> str:
    with pytest.raises(ImportRefused) as raised:
        importing.import_model(source, source.parent / "snapshot", **options)
    return str(raised.value)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_state_dict_loads_into_its_module(tmp_path: Path, zipped: bool) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
    path = saved(tmp_path, module.state_dict(), _use_new_zipfile_serialization=zipped)
    weights, imported = import_model(path)
    assert imported.format == "torch"
    other = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
    other.load_state_dict(weights, assign=True)
    module.eval(), other.eval()
    x = values(2, 4)
    assert torch.equal(other(x), module(x))
    assert other[1].num_batches_tracked.dtype == torch.int64


def test_tensors_keep_the_order_of_the_file(tmp_path: Path) -> None:
    weights, _ = import_model(saved(tmp_path, OrderedDict([("z", values(1)), ("a", values(2)), ("m", values(3))])))
    assert list(weights) == ["z", "a", "m"]


def test_nested_parts_are_called_by_dotted_names(tmp_path: Path) -> None:
    content = {
        "model": {"w": values(2)},
        "optimizer": {"state": {0: {"m": values(3)}}, "steps": [values(1)]},
        "epoch": 3,
    }
    weights, imported = import_model(saved(tmp_path, content))
    assert list(weights) == ["model.w", "optimizer.state.0.m", "optimizer.steps.0"]
    assert any("epoch" in note for note in imported.notes)
    assert any("--key model" in note for note in imported.notes)


@pytest.mark.parametrize(("key", "names"), [("model", ["w"]), ("a.b.inner", ["x"]), ("a.b", ["inner.x"])])
def test_a_part_is_chosen_by_key(tmp_path: Path, key: str, names: list[str]) -> None:
    path = saved(tmp_path, {"model": {"w": values(2)}, "a.b": {"inner": {"x": values(1)}}})
    assert list(import_model(path, key=key)[0]) == names


def test_a_key_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    path = saved(tmp_path, {"model": {"w": values(2)}, "epoch": 1})
    assert "it has: epoch, model" in refused(path, key="state_dict")
    assert "no named parts" in refused(path, key="model.w.x")


def test_a_key_is_for_torch_files_alone(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    assert "--key" in refused(tmp_path / "m.onnx", key="model")


def test_st_01_tied_tensors_are_stored_once_and_slices_by_value(tmp_path: Path) -> None:
    weight = values(100, 8)
    path = saved(tmp_path, {"emb": weight, "head": weight, "half": weight[:50], "columns": weight[:, ::2]})
    weights, imported = import_model(path)
    assert imported.manifest.tensor_bytes == weight.nbytes * 2  # one of it, its half, and every other column
    assert torch.equal(weights["half"], weight[:50])
    assert torch.equal(weights["columns"], weight[:, ::2])
    weights["head"][0, 0] = 7
    assert weights["emb"][0, 0] == 7


def test_a_file_that_needs_code_names_it(tmp_path: Path) -> None:
    message = refused(saved(tmp_path, {"w": values(1), "config": Custom()}))
    assert "test_torch_file.Custom" in message
    assert "state_dict" in message


def test_a_whole_module_is_refused_by_its_class(tmp_path: Path) -> None:
    assert "torch.nn.modules.linear.Linear" in refused(saved(tmp_path, torch.nn.Linear(2, 2)))


def test_code_in_a_file_is_never_run(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "touched",)

    refused(saved(tmp_path, {"w": Hostile()}))
    assert not (tmp_path / "touched").exists()


def test_plain_values_beside_the_tensors_are_left_out(tmp_path: Path) -> None:
    beside = {
        "lr": np.float64(3),
        "step": np.int32(1),
        "seen": np.arange(3.0),
        "kind": np.dtype("<f4"),
        "at": np.str_("x"),
    }
    content = {"state": {"w": values(4)}, **beside, "args": argparse.Namespace(depth=1, more=argparse.Namespace())}
    weights, imported = import_model(saved(tmp_path, content))
    assert torch.equal(weights["state.w"], values(4))
    assert "left out, since they are no tensors: args, at, kind, lr, seen, step" in imported.notes


def test_numpys_values_are_read_by_the_names_of_both_its_versions(tmp_path: Path) -> None:
    content = {"w": values(4), "lr": np.float64(3)}
    path = saved(tmp_path, content)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert list(import_model(path)[0]) == ["w"]


def test_an_array_of_objects_is_refused(tmp_path: Path) -> None:
    assert "ObjectDType" in refused(saved(tmp_path, {"w": values(4), "names": np.array(["a", None], object)}))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"\x80\x02 no pickle", b"hello" * 100])
def test_a_file_that_torch_cannot_read_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.pt").write_bytes(content)
    assert "broken.pt" in refused(tmp_path / "broken.pt")


def test_a_file_that_was_cut_short_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path, {"w": values(1000)})
    path.write_bytes(path.read_bytes()[:2000])
    assert "model.pt" in refused(path)


def test_a_file_without_tensors_is_refused(tmp_path: Path) -> None:
    assert "holds no tensors" in refused(saved(tmp_path, {"epoch": 3}))


def test_two_tensors_of_one_name_are_refused(tmp_path: Path) -> None:
    assert "'a.b'" in refused(saved(tmp_path, {"a": {"b": values(1)}, "a.b": values(2)}))


def test_tensors_that_are_not_plain_are_named(tmp_path: Path) -> None:
    assert "'s' is sparse_coo" in refused(saved(tmp_path, {"s": torch.eye(3).to_sparse()}))
    with pytest.raises(UnsupportedDtypeError, match=r"'c' is torch\.complex128"):
        importing.import_model(saved(tmp_path, {"c": torch.zeros(2, dtype=torch.complex128)}), tmp_path / "snapshot")


@pytest.mark.parametrize("suffix", [".pth", ".bin", ".ckpt", ""])
def test_files_of_torch_are_known_by_name_or_content(tmp_path: Path, suffix: str) -> None:
    assert import_model(saved(tmp_path, {"w": values(1)}, f"model{suffix}"))[1].format == "torch"


def test_names_that_the_format_keeps_for_itself_are_refused(tmp_path: Path) -> None:
    assert "__metadata__" in refused(saved(tmp_path, {"__metadata__": values(1)}))
    assert "~filler/0" in refused(saved(tmp_path, {"~filler/0": values(1)}))


def test_odd_tensors_come_back_by_value(tmp_path: Path) -> None:
    tensors = {
        "scalar": torch.tensor(3.5), "empty": torch.zeros(0, 4), "other_empty": torch.zeros(0, 4),
        "turned": values(3, 4).t(), "spread": values(1, 4).expand(5, 4), "parameter": torch.nn.Parameter(values(2)),
        "conjugate": torch.complex(values(3), values(3, seed=1)).conj(),
        "int": torch.tensor([1, 65535], dtype=torch.uint16),
    }  # fmt: skip
    weights, _ = import_model(saved(tmp_path, tensors))
    for name, tensor in tensors.items():
        assert weights[name].shape == tensor.shape
        assert torch.equal(weights[name], tensor)


def test_the_manifest_tells_where_it_came_from(tmp_path: Path) -> None:
    _, imported = import_model(saved(tmp_path, {"w": values(1)}), dtype="fp16")
    assert imported.manifest.meta == {"imported": {"dtype": "fp16", "format": "torch", "source": "model.pt"}}
