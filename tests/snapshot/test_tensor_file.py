from pathlib import Path

import numpy as np
import pytest
import torch

from snapshot import BadHeaderError, TensorFile, UnsupportedDtypeError
from snapshot.format import Placement, lay_out, write_file

BF16, F8, F4 = b"\x80\x3f\x00\x40", b"\x38\x40", b"\x21\x43"
SIX, NEW = b"\x01\x02\x03", b"\x09\x08\x07\x06\x05"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    placements = [
        Placement("b", "BF16", (2,), 4),
        Placement("e", "F8_E4M3", (2,), 2),
        Placement("four", "F4", (4,), 2),
        Placement("six", "F6_E2M3", (4,), 3),
        Placement("new", "F3_X", (7, 7), 5),
        Placement("f", "F32", (2, 2), 16),
    ]
    path = tmp_path / "c.safetensors"
    with open(path, "wb") as file:
        write_file(file, lay_out(placements), [[BF16], [F8], [F4], [SIX], [NEW], [np.arange(4, dtype="f4").tobytes()]])
    return path


def test_st_03_small_floats_are_themselves(checkpoint: Path) -> None:
    tensor = TensorFile(checkpoint).tensor("b")
    assert tensor.dtype == torch.bfloat16
    assert tensor.tolist() == [1.0, 2.0]
    assert TensorFile(checkpoint).tensor("e").dtype == torch.float8_e4m3fn
    assert TensorFile(checkpoint).tensor("e").float().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("name", "dtype"), [("b", "BF16"), ("e", "F8_E4M3"), ("four", "F4"), ("six", "F6_E2M3")])
def test_st_03_without_torch_they_are_a_named_error_and_the_others_load(
    checkpoint: Path, name: str, dtype: str
) -> None:
    file = TensorFile(checkpoint)
    with pytest.raises(UnsupportedDtypeError, match=f"tensor '{name}' is {dtype}.*torch"):
        file.array(name)
    np.testing.assert_array_equal(file.array("f"), [[0, 1], [2, 3]])


def test_st_03_an_unknown_type_is_a_named_error_and_its_bytes_are_there(checkpoint: Path) -> None:
    file = TensorFile(checkpoint)
    for name, dtype, content in (("six", "F6_E2M3", SIX), ("new", "F3_X", NEW)):
        with pytest.raises(UnsupportedDtypeError, match=f"tensor '{name}' is {dtype}"):
            file.tensor(name)
        assert bytes(file.memory(name)) == content
    assert torch.equal(file.tensor("f"), torch.tensor([[0.0, 1.0], [2.0, 3.0]]))


def test_st_03_four_bit_floats_come_in_pairs(checkpoint: Path) -> None:
    pairs = TensorFile(checkpoint).tensor("four")
    assert pairs.dtype == torch.float4_e2m1fn_x2
    assert pairs.shape == (2,)
    assert bytes(pairs.view(torch.uint8).numpy()) == F4


def test_st_03_written_again_it_is_the_same_file(checkpoint: Path, tmp_path: Path) -> None:
    file = TensorFile(checkpoint)
    names = [name for name in file.names() if not name.startswith("~filler/")]
    entries = [file.header.entries[name] for name in names]
    memories = [file.memory(name) for name in names]
    placements = [
        Placement(name, entry.dtype, entry.shape, len(memory))
        for name, entry, memory in zip(names, entries, memories, strict=True)
    ]
    with open(tmp_path / "again", "wb") as again:
        write_file(again, lay_out(placements), [[memory] for memory in memories])
    assert (tmp_path / "again").read_bytes() == checkpoint.read_bytes()


def test_writing_to_a_tensor_never_reaches_the_file(checkpoint: Path) -> None:
    before = checkpoint.read_bytes()
    file = TensorFile(checkpoint)
    file.tensor("f").zero_()
    file.array("f")[0, 0] = 9
    assert file.tensor("f")[0, 0] == 9, "the views of one file share its memory"
    assert checkpoint.read_bytes() == before
    assert TensorFile(checkpoint).tensor("f")[0, 1] == 1


def test_a_name_that_is_not_there_is_a_key_error(checkpoint: Path) -> None:
    with pytest.raises(KeyError, match="nothing"):
        TensorFile(checkpoint).tensor("nothing")


def test_a_damaged_file_is_refused_when_it_is_opened(checkpoint: Path) -> None:
    checkpoint.write_bytes(b"\xff" * 64)
    with pytest.raises(BadHeaderError):
        TensorFile(checkpoint)
