import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import snapshot
from snapshot.errors import ImportRefused
from snapshot.imports import DTYPES, importing
from snapshot.imports.incoming import PIECE_BYTES, Incoming
from tests.snapshot.imports.folders import values

TORCH_DTYPES = {
    "fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16,
    "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2,
}  # fmt: skip


def converted(folder: Path, tensors: dict[str, torch.Tensor], dtype: str) -> tuple[snapshot.Weights, tuple[str, ...]]:
    save_file(tensors, folder / "model.safetensors")
    imported = importing.import_model(folder / "model.safetensors", folder / "snapshot", dtype=dtype)
    return snapshot.open_weights(folder / "snapshot"), imported.notes


@pytest.mark.parametrize("before", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("asked", sorted(DTYPES))
def test_values_are_those_that_torch_makes(tmp_path: Path, asked: str, before: torch.dtype) -> None:
    tensor = values(7, 5, dtype=before)
    weights, _ = converted(tmp_path, {"w": tensor}, asked)
    assert weights["w"].dtype == TORCH_DTYPES[asked]
    assert torch.equal(weights["w"].view(torch.uint8), tensor.to(TORCH_DTYPES[asked]).view(torch.uint8))


def test_integers_and_small_floats_are_left_alone(tmp_path: Path) -> None:
    tensors = {
        "int": torch.arange(4), "bool": torch.tensor([True]), "fp8": values(4, dtype=torch.float8_e5m2),
        "float": values(4),
    }  # fmt: skip
    weights, notes = converted(tmp_path, tensors, "fp16")
    assert {name: tensor.dtype for name, tensor in weights.items()} == {
        "int": torch.int64,
        "bool": torch.bool,
        "fp8": torch.float8_e5m2,
        "float": torch.float16,
    }
    assert notes == ("kept as they are: tensors of type BOOL, F8_E5M2, I64",)


def test_values_that_overflow_are_counted_and_their_tensors_named(tmp_path: Path) -> None:
    tensors = {
        "big": torch.tensor([1e6, -1e6, 1.0]), "fine": torch.tensor([65504.0]),
        "was_infinite": torch.tensor([float("inf"), float("nan")]),
    }  # fmt: skip
    weights, notes = converted(tmp_path, tensors, "fp16")
    assert weights["big"].tolist() == [float("inf"), float("-inf"), 1.0]
    assert len(notes) == 1
    assert notes[0].startswith("2 values of 1 tensors")
    assert "big" in notes[0]
    assert "fine" not in notes[0]
    assert "was_infinite" not in notes[0]


def test_nothing_overflows_where_the_type_holds_it(tmp_path: Path) -> None:
    assert converted(tmp_path, {"big": torch.tensor([1e6])}, "bf16")[1] == ()


def test_a_type_that_is_unknown_lists_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match="fp32"):
        importing.import_model(tmp_path, tmp_path / "snapshot", dtype="int8")


def test_memory_stays_at_a_few_pieces(tmp_path: Path) -> None:
    num_pieces = 12
    tensors = {f"w{n}": torch.zeros(3 * PIECE_BYTES // 4) for n in range(num_pieces // 3)}
    save_file(tensors, tmp_path / "model.safetensors")
    del tensors
    tracemalloc.start()  # numpy and bytes are counted, torch's own memory is not: one piece in each type
    try:
        importing.import_model(tmp_path / "model.safetensors", tmp_path / "snapshot", dtype="bf16")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * PIECE_BYTES < num_pieces * PIECE_BYTES


def test_a_tensor_knows_its_size() -> None:
    assert Incoming("w", "BF16", (3, 5), lambda: iter([np.zeros(30, np.uint8).data])).num_bytes == 30
