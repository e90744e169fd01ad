"""A reader made from docs/snapshot-format.md alone, with nothing of this project: what it reads is what was frozen."""

import json
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from blake3 import blake3

import snapshot

CHUNK_BYTES = 8_388_608
TORCH_BYTES = {"bfloat16": 2, "float32": 4, "int64": 8, "complex128": 16, "uint8": 1, "float8_e4m3fn": 1}


def digest(content: bytes) -> str:
    return blake3(content).hexdigest()


def check_file(folder: Path, record: dict[str, Any]) -> bytes:
    content = (folder / record["file"]).read_bytes()
    assert len(content) == record["num_bytes"]
    chunks = [content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES)]
    assert [digest(chunk) for chunk in chunks] == record["chunks"]
    assert digest(b"".join(blake3(chunk).digest() for chunk in chunks)) == record["digest"]
    return content


def item_bytes(view: dict[str, Any]) -> int:
    if view["form"] in ("torch", "parameter", "storage"):
        return TORCH_BYTES[view["dtype"]]
    kind, size = view["dtype"][1], int(view["dtype"][2:].partition("[")[0])
    return size * 4 if kind == "U" else size


def elements(view: dict[str, Any], memory: bytes) -> bytes:
    """The elements of a view in C order, one after the other."""
    size, shape = item_bytes(view), view["shape"]
    strides = view.get("strides") or [size * prod(shape[d + 1 :]) for d in range(len(shape))]
    first = view.get("start", 0)
    begins = (
        first + sum(i * stride for i, stride in zip(index, strides, strict=True))
        for index in product(*map(range, shape))
    )
    return b"".join(memory[begin : begin + size] for begin in begins)


def read_tensors(folder: Path, identity: str) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Steps 1 to 5: name -> type, shape and elements in C order."""
    encoded = (folder / "manifest.json").read_bytes()
    assert digest(encoded) == identity
    manifest = json.loads(encoded)
    assert manifest["format_version"] == 2
    stored: list[bytes] = []
    for shard in manifest["shards"]:
        content = check_file(folder, shard)
        assert digest(content[: shard["head_bytes"]]) == shard["head_digest"]
        theirs = {name: tensor for name, tensor in safetensors.deserialize(content) if not name.startswith("~filler/")}
        assert sorted(theirs) == sorted(tensor["name"] for tensor in shard["tensors"])
        for tensor in shard["tensors"]:
            assert tensor["offset"] % 64 == 0
            stored.append(content[tensor["offset"] : tensor["offset"] + tensor["num_bytes"]])
            listed = theirs[tensor["name"]]
            assert (listed["dtype"], listed["shape"]) == (tensor["dtype"], tensor["shape"])
            assert bytes(listed["data"]) == stored[-1]
    return {
        view["name"]: (view["dtype"], tuple(view["shape"]), elements(view, stored[view["tensor"]]))
        for view in manifest["views"]
    }


WEIGHT = torch.arange(60.0).view(6, 10)
ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "gaps": np.arange(24.0)[::5],
    "reversed": np.arange(10, dtype="<i2")[::-1],
    "repeated": np.broadcast_to(np.arange(3.0), (4, 3)),
    "big-endian": np.arange(4, dtype=">f4"),
    "text": np.array(["a", "grüße"]),
    "dates": np.array(["2026-11-29"], dtype="M8[D]"),
    "complex": np.array([1 + 2j]),
    "scalar": np.array(7.5),
    "empty": np.zeros((0, 3)),
}
TENSORS: dict[str, torch.Tensor] = {
    "weight": WEIGHT,
    "rows": WEIGHT[2:],
    "transposed": WEIGHT.t(),
    "every other": WEIGHT[::2, 1::3],
    "bf16": torch.nn.Parameter(torch.ones(3, 3, dtype=torch.bfloat16)),
    "fp8": torch.ones(5).to(torch.float8_e4m3fn),
    "complex128": torch.ones(2, dtype=torch.complex128),
    "zero": torch.tensor(3),
}


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("shard_bytes", [1 << 30, 128])
def test_a_reader_made_from_the_document_reads_what_was_frozen(tmp_path: Path, shard_bytes: int) -> None:
    manifest = snapshot.freeze({**ARRAYS, **TENSORS}, tmp_path / "s", shard_bytes=shard_bytes)
    read = read_tensors(tmp_path / "s", manifest.digest)
    assert read.keys() == ARRAYS.keys() | TENSORS.keys()
    for name, array in ARRAYS.items():
        assert read[name] == (array.dtype.str, array.shape, array.tobytes()), name
    for name, tensor in TENSORS.items():
        assert read[name] == (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), bytes_of(tensor)), name


def test_a_file_of_several_chunks_has_the_documented_address(tmp_path: Path) -> None:
    content = bytes(range(256)) * (CHUNK_BYTES // 256 * 2 + 1)
    kept = snapshot.KeptFiles({"model.bin": content, "empty": b""})
    snapshot.freeze([kept, np.arange(CHUNK_BYTES // 4)], tmp_path / "s")
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_bytes())
    assert [len(record["chunks"]) for record in manifest["files"]] == [3, 0]
    assert check_file(tmp_path / "s", manifest["files"][0]) == content
    assert check_file(tmp_path / "s", manifest["files"][1]) == b""
    assert len(manifest["shards"][0]["chunks"]) > 1
    for record in (*manifest["shards"], manifest["skeleton"]):
        check_file(tmp_path / "s", record)


def test_the_spelling_of_a_manifest_is_the_documented_one(tmp_path: Path) -> None:
    meta = {"ü": [1, 2.5, None], "a": {"z": True, "b": "€"}}
    snapshot.freeze({"x": np.arange(3.0)}, tmp_path / "s", meta=meta)
    encoded = (tmp_path / "s" / "manifest.json").read_bytes()
    manifest = json.loads(encoded)
    assert list(manifest) == [
        "format_version", "python", "libraries", "created_at", "skeleton", "shards", "views", "files", "meta",
    ]  # fmt: skip
    manifest["libraries"] = dict(sorted(manifest["libraries"].items()))
    manifest["meta"] = {"a": {"b": "€", "z": True}, "ü": [1, 2.5, None]}
    assert json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode() == encoded
    assert list(manifest["views"][0]) == ["tensor", "form", "name", "dtype", "shape"], "defaults are left out"
