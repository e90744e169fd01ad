"""Files that have a model's names and are something else, as unfinished downloads and clones leave them."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import snapshot
from snapshot.errors import DamagedError
from snapshot.format import read_header
from snapshot.imports import import_model
from snapshot.mapping import opened
from snapshot.mistaken import HEAD_BYTES, mistaken
from tests.snapshot.imports.folders import write_config

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 90868376\n"
PAGE = b"\n<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>"
ERROR = b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code></Error>'
ZEROS = bytes(4096)
NAMES = ["model.safetensors", "pytorch_model.bin", "model.gguf", "model.onnx", "model.safetensors.index.json"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("content", "words"),
    [(POINTER, "git lfs pull"), (PAGE, "download it again"), (ERROR, "download it again"), (ZEROS, "zeros")],
)
def test_what_lies_in_the_place_of_a_models_file_is_named(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DamagedError, match=words) as caught:
        import_model(tmp_path / name, tmp_path / "snapshot")
    assert caught.value.path == tmp_path / name
    assert not (tmp_path / "snapshot").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer.model", "a/b.json"])
def test_a_folder_with_a_pointer_left_in_it_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    (folder / "a").mkdir(parents=True)
    save_file({"w": torch.ones(1)}, folder / "model.safetensors")
    write_config(folder)
    (folder / name).write_bytes(POINTER)
    with pytest.raises(DamagedError, match="git lfs pull") as caught:
        import_model(folder, tmp_path / "snapshot")
    assert caught.value.path == folder / name


@pytest.mark.parametrize(
    ("content", "words"), [(b"PK\x03\x04" + b"\x14\0" * 50, r"\.pt"), (b"GGUF" + ZEROS, r"\.gguf")]
)
def test_weights_of_another_format_are_told_their_name(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(content)
    with pytest.raises(DamagedError, match=words):
        import_model(tmp_path / "model", tmp_path / "snapshot")


def test_a_header_whose_length_looks_like_another_format_is_read(tmp_path: Path) -> None:
    length = int.from_bytes(b"\x80\x02", "little")  # as a pickle begins
    header = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode().ljust(length)
    (tmp_path / "a.safetensors").write_bytes(length.to_bytes(8, "little") + header + b"7")
    with opened(tmp_path / "a.safetensors") as descriptor:
        assert list(read_header(tmp_path / "a.safetensors", descriptor).entries) == ["w"]


@pytest.mark.parametrize("begin", [b"", b"\0" * (HEAD_BYTES - 1), b'{"a": 1}', b"\x08\x07\x12\x07pytorch"])
def test_what_may_be_itself_is_not_mistaken(begin: bytes) -> None:
    assert mistaken(begin) is None


def test_what_files_say_of_themselves_is_kept(tmp_path: Path) -> None:
    save_file({"w": torch.ones(1)}, tmp_path / "model.safetensors", {"format": "pt", "quantised": "int8"})
    imported = import_model(tmp_path / "model.safetensors", tmp_path / "snapshot")
    told = imported.manifest.meta["imported"]
    assert isinstance(told, dict)
    assert told["metadata"] == {"format": "pt", "quantised": "int8"}
    assert snapshot.read_manifest(tmp_path / "snapshot").meta == imported.manifest.meta
