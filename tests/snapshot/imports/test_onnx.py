import sys
from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot.errors import DamagedError, ImportRefused, MissingShardsError
from snapshot.imports import Imported, importing
from tests.snapshot.onnx_bytes import adder, tensor

WEIGHTS = np.arange(4, dtype="f4")


def write(folder: Path, location: str = "") -> Path:
    """The model y = x + w, its weights inside or in a file."""
    raw = b"" if location else WEIGHTS.tobytes()
    (folder / "adder.onnx").write_bytes(adder(tensor("w", 4, raw=raw, location=location), 4))
    return folder / "adder.onnx"


def import_model(source: Path) -> Imported:
    imported = importing.import_model(source, source.parent / "snapshot")
    snapshot.verify(source.parent / "snapshot")
    return imported


def refused(source: Path, error: type[snapshot.SnapshotError], **options: str) -> str:
    with pytest.raises(error) as raised:
        importing.import_model(source, source.parent / "snapshot", **options)
    assert not (source.parent / "snapshot").exists()
    return str(raised.value)


@pytest.mark.parametrize("location", ["", "w.bin"])
def test_a_model_thaws_as_a_session_that_answers(tmp_path: Path, location: str) -> None:
    source = write(tmp_path, location)
    if location:
        (tmp_path / location).write_bytes(WEIGHTS.tobytes())
    imported = import_model(source)
    for file in (source, tmp_path / "w.bin"):
        file.unlink(missing_ok=True)
    assert imported.format == "onnx"
    session = snapshot.thaw(tmp_path / "snapshot").state
    assert session.run(None, {"x": np.ones(4, "f4")})[0].tolist() == [1, 2, 3, 4]


def test_large_weights_stay_in_a_file_beside_the_model(tmp_path: Path) -> None:
    size = 4096
    (tmp_path / "adder.onnx").write_bytes(adder(tensor("w", size, location="w.bin"), size))
    (tmp_path / "w.bin").write_bytes(np.ones(size, "f4").tobytes())
    imported = import_model(tmp_path / "adder.onnx")
    kept = {Path(record.file).name: record.num_bytes for record in imported.manifest.files}
    assert kept.pop("adder.onnx") < size
    assert sum(kept.values()) >= size * 4


def test_files_with_weights_that_are_missing_are_listed(tmp_path: Path) -> None:
    assert "w.bin" in refused(write(tmp_path, "w.bin"), MissingShardsError)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd"])
def test_weights_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    assert repr(location) in refused(write(tmp_path, location), DamagedError)


def test_a_file_with_weights_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path, "w.bin")
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes()[:-1])
    assert str(source) in refused(source, ImportRefused)


@pytest.mark.parametrize("content", [b"", b"\xff" * 50, b"no model at all"])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.onnx").write_bytes(content)
    with pytest.raises((DamagedError, ImportRefused), match=r"broken\.onnx"):
        importing.import_model(tmp_path / "broken.onnx", tmp_path / "snapshot")


def test_its_types_are_not_converted(tmp_path: Path) -> None:
    assert "operators" in refused(write(tmp_path), ImportRefused, dtype="fp16")


def test_without_onnxruntime_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "faas[onnx]" in refused(write(tmp_path), ImportRefused)
