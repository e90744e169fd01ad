"""Torch modules exported for real: their answers, their shapes, and why some cannot be."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import snapshot
from snapshot.errors import InputMismatch, NotExportable
from snapshot.export import aoti, onnx
from snapshot.export.module import ExportedModule
from snapshot.export.recording import Recording, examples_of, recording


class Encoder(torch.nn.Module):
    """A module as those of transformers are: optional inputs, nested answers, a part of them None."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.words = torch.nn.Embedding(50, 16)
        self.inner = torch.nn.Linear(16, 64)
        self.outer = torch.nn.Linear(64, 16)

    def forward(self, ids: Any, mask: Any = None, bias: Any = None, *, double: bool = False) -> dict[str, Any]:
        hidden = self.outer(torch.nn.functional.gelu(self.inner(self.words(torch.as_tensor(ids)))))
        if bias is not None:
            hidden = hidden + torch.as_tensor(bias)
        if mask is not None:
            hidden = hidden * torch.as_tensor(mask).unsqueeze(-1)
        return {"hidden": hidden * 2 if double else hidden, "best": hidden.sum(1).argmax(-1), "none": None}


class Adds(torch.nn.Module):
    def forward(self, x: Any, *others: Any, scale: Any = 1, cache: Any = None) -> Any:
        return sum((torch.as_tensor(other) for other in others), torch.as_tensor(x)) * scale


IDS = np.array([[1, 2, 3], [4, 5, 6]])
MASK = np.ones((2, 3), "f4")
BIAS = np.zeros(16, "f4")


def recorded(module: torch.nn.Module, *calls: tuple[tuple[Any, ...], dict[str, Any]]) -> Recording:
    with recording() as found, torch.no_grad():
        for args, kwargs in calls:
            module(*args, **kwargs)
    return found


@pytest.fixture(scope="module")
def encoder() -> torch.nn.Module:
    return Encoder().eval()


@pytest.fixture(scope="module")
def exported(
    encoder: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ExportedModule, dict[str, str]]:
    calls = recorded(encoder, ((IDS, MASK, BIAS), {}), ((IDS[:1, :2],), {"mask": MASK[:1, :2], "bias": BIAS})).calls
    folder = tmp_path_factory.mktemp("exported") / "encoder"
    return onnx.export_module(encoder, calls[encoder], "self.model", folder)


@pytest.mark.slow
def test_every_axis_that_the_module_leaves_free_is_free(
    encoder: torch.nn.Module, exported: tuple[ExportedModule, dict[str, str]]
) -> None:
    model, told = exported
    assert told == {"ids": "int64[any, any]", "mask": "float32[any, any]", "bias": "float32[16]"}
    for shape in ((1, 1), (5, 7), (3, 11)):
        ids, mask = np.random.default_rng(1).integers(0, 50, shape), np.ones(shape, "f4")
        with torch.no_grad():
            wanted = encoder(ids, mask, BIAS)
        answer = model(ids, mask=mask, bias=BIAS)
        assert list(answer) == ["hidden", "best", "none"]
        assert answer["none"] is None
        assert np.allclose(answer["hidden"], wanted["hidden"], atol=1e-5)
        assert answer["best"].tolist() == wanted["best"].tolist()
        as_torch = model(torch.from_numpy(ids), torch.from_numpy(mask), BIAS)
        assert torch.allclose(as_torch["hidden"], wanted["hidden"], atol=1e-5)


@pytest.mark.slow
def test_or_02_inputs_of_other_types_are_cast_or_refused(exported: tuple[ExportedModule, dict[str, str]]) -> None:
    model, _ = exported
    wanted = model(IDS, MASK, BIAS)["hidden"].tolist()
    assert model(IDS.astype("i4").tolist(), MASK.astype("f8"), BIAS)["hidden"].tolist() == wanted
    with pytest.raises(InputMismatch, match=r"input 'bias': got float32\[15\], wanted float32\[16\]"):
        model(IDS, MASK, BIAS[1:])
    with pytest.raises(InputMismatch, match="input 'ids'"):
        model(IDS + 0.5, MASK, BIAS)


def test_it_is_frozen_in_the_modules_place_and_thawed_without_torch(
    encoder: torch.nn.Module,
    exported: tuple[ExportedModule, dict[str, str]],
    tmp_path: Path,
    fresh_process: Any,
) -> None:
    state = {"model": encoder, "same": encoder, "list": [encoder, 1]}
    manifest = snapshot.freeze(state, tmp_path / "s", replacing={id(encoder): exported[0]})
    assert "torch" not in manifest.libraries
    assert manifest.tensor_bytes == 0
    assert {Path(record.file).name for record in manifest.files} == {"model.onnx", "weights.bin"}
    snapshot.verify(tmp_path / "s")
    program = """
import json, sys, snapshot, numpy
from pathlib import Path
state = snapshot.thaw(Path(sys.argv[1]), num_threads=1).state
model = state["model"]
assert model is state["same"] is state["list"][0]
options = model.backend.graph.session.get_session_options()
answer = model(numpy.array([[1, 2, 3], [4, 5, 6]]), numpy.ones((2, 3)), numpy.zeros(16))
print(json.dumps([answer["hidden"].tolist(), "torch" in sys.modules, options.intra_op_num_threads]))
"""
    hidden, has_torch, num_threads = fresh_process(program, tmp_path / "s")
    with torch.no_grad():
        assert np.allclose(hidden, encoder(IDS, MASK)["hidden"], atol=1e-5)
    assert not has_torch
    assert num_threads == 1


def test_only_calls_from_outside_are_recorded(encoder: torch.nn.Module) -> None:
    around = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    assert list(recorded(around, ((torch.ones(1, 4),), {})).calls) == [around]
    with recording() as found, pytest.raises(RuntimeError):
        around(torch.ones(1, 5))
    assert not found.calls
    with recording() as found:
        around[0](torch.ones(1, 4))
    assert list(found.calls) == [around[0]]


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([((IDS,), {}), ((IDS, MASK), {})], r"called in two ways: \(ids\) and \(ids, mask\)"),
        ([((IDS,), {"double": True}), ((IDS,), {})], "called in two ways"),
    ],
)
def test_a_module_that_is_called_in_two_ways_is_refused(
    encoder: torch.nn.Module, calls: list[Any], reason: str
) -> None:
    found = recorded(encoder, *calls).calls[encoder]
    with pytest.raises(NotExportable, match=rf"self\.model: .*{reason}"):
        examples_of(encoder, found, "self.model")


def test_arguments_that_are_no_arrays_are_refused_by_their_place() -> None:
    adds = Adds()
    found = recorded(adds, ((IDS,), {"cache": {"a": object()}})).calls[adds]
    with pytest.raises(NotExportable, match=r"called with cache\.a, a object"):
        examples_of(adds, found, "self.adds")
    found = recorded(adds, ((3,), {})).calls[adds]
    with pytest.raises(NotExportable, match="without any array"):
        examples_of(adds, found, "self.adds")


def test_a_module_in_training_mode_is_refused(tmp_path: Path) -> None:
    for export in (onnx.export_module, aoti.export_module):
        with pytest.raises(NotExportable, match=r"call \.eval\(\)"):
            export(Encoder(), [], "self.model", tmp_path / "none")


def test_a_module_that_torch_cannot_export_is_refused_with_its_reason(tmp_path: Path) -> None:
    class Decides(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x

    decides = Decides().eval()
    calls = recorded(decides, ((torch.ones(2, 3),), {}), ((torch.ones(3, 2),), {})).calls[decides]
    with pytest.raises(NotExportable, match=r"self\.decides: torch cannot export it: .*data-dependent"):
        onnx.export_module(decides, calls, "self.decides", tmp_path / "decides")


def test_compiling_without_a_compiler_is_refused(
    encoder: torch.nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = recorded(encoder, ((IDS, MASK), {})).calls[encoder]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NotExportable, match=r"needs a C\+\+ compiler.*export to onnx"):
        aoti.export_module(encoder, calls, "self.model", tmp_path / "none")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_compiled_module_is_kept_as_its_package(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    calls = recorded(model, ((torch.ones(2, 4),), {}), ((torch.ones(3, 4),), {})).calls[model]
    stand_in, told = aoti.export_module(model, calls, "self.model", tmp_path / "compiled")
    assert told == {"input": "float32[any, 4]"}
    snapshot.freeze({"model": model}, tmp_path / "s", replacing={id(model): stand_in})
    shutil.rmtree(tmp_path / "compiled")
    back = snapshot.thaw(tmp_path / "s").state["model"]
    x = torch.randn(7, 4)
    assert torch.allclose(back(x), model(x), atol=1e-5)
    with pytest.raises(InputMismatch, match=r"float32\[1, 5\], wanted float32\[any, 4\]"):
        back(torch.ones(1, 5))
