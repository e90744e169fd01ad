from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import faas as package
import snapshot
from tests.cli.conftest import Faas
from tests.s3_server import rclone
from tests.snapshot.imports.folders import layers, three_shards, values


@pytest.fixture
def model(folder: Path) -> Path:
    (folder / "Tiny Model").mkdir()
    three_shards(folder / "Tiny Model")
    return folder / "Tiny Model"


def test_an_imported_model_is_shown_and_opens_by_its_name(faas: Faas, model: Path, home: Path) -> None:
    outcome = faas("snapshot", "import", str(model))
    assert outcome.code == 0, outcome.err
    assert "Tiny-Model" in outcome.out
    assert "huggingface" in outcome.out
    assert "F32" in outcome.out
    assert "importing Tiny Model" in outcome.err
    weights = package.open_weights("Tiny-Model")
    assert torch.equal(weights["model.norm.weight"], values(4, seed=101))
    assert weights.folder is not None
    assert home in weights.folder.parents
    assert len(package.open_weights(weights.folder.parents[1])) == len(weights)
    assert len(package.open_weights(str(weights.folder.parents[1]))) == len(weights)


def test_json_holds_all_that_is_known(faas: Faas, model: Path) -> None:
    outcome = faas("snapshot", "import", str(model), "--name", "tiny", "--dtype", "bf16", "--json")
    row = json.loads(outcome.out)
    assert row["name"] == "tiny"
    assert row["dtypes"] == ["BF16"]
    assert (row["num_tensors"], row["num_tied"]) == (5, 1)
    assert row["kept_files"] == ["files/0/config.json"]
    assert row["notes"] == []
    assert snapshot.verify(Path(row["snapshot"])).digest == row["digest"]


def test_an_imported_model_is_inspected_and_verified_by_its_name(faas: Faas, model: Path) -> None:
    faas("snapshot", "import", str(model), "--name", "tiny")
    assert faas("snapshot", "verify", "tiny").code == 0
    assert json.loads(faas("snapshot", "inspect", "tiny", "--json").out)["num_tensors"] == 5


def test_the_store_is_where_it_is_told(faas: Faas, model: Path, folder: Path, home: Path) -> None:
    assert faas("snapshot", "import", str(model), "--name", "tiny", "--store", "elsewhere").code == 0
    assert snapshot.LocalStore(folder / "elsewhere").names() == ["tiny"]
    assert not home.exists()


def test_a_store_in_s3_gets_what_was_imported(
    faas: Faas, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with rclone(folder / "s3", "bucket") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        outcome = faas("snapshot", "import", str(model), "--name", "tiny", "--store", "s3://bucket/models")
        assert outcome.code == 0, outcome.err
        pulled = faas("snapshot", "pull", "s3://bucket/models/tiny", "--store", "elsewhere")
        assert pulled.code == 0, pulled.err
    store = snapshot.LocalStore(folder / "elsewhere")
    assert len(snapshot.open_weights(store.folder(store.find("tiny")))) == 6


def test_st_05_a_missing_shard_is_told_in_a_line_with_what_to_do(faas: Faas, model: Path, home: Path) -> None:
    (model / "model-00002-of-00003.safetensors").unlink()
    outcome = faas("snapshot", "import", str(model))
    assert outcome.code == 1
    assert "model-00002-of-00003.safetensors" in outcome.err
    assert "next:" in outcome.err
    assert "again" in outcome.err
    assert list((home / "snapshots").iterdir()) == []


def test_damage_is_told_with_what_to_do(faas: Faas, folder: Path) -> None:
    (folder / "m.safetensors").write_bytes(b"\xff" * 20)
    outcome = faas("snapshot", "import", "m.safetensors")
    assert outcome.code == 1
    assert "m.safetensors" in outcome.err
    assert "download it again" in outcome.err


def test_a_part_of_a_torch_file_is_chosen(faas: Faas, folder: Path) -> None:
    torch.save({"model": {"w": values(2)}, "step": 1}, folder / "ckpt.v1.pt")
    assert faas("snapshot", "import", "ckpt.v1.pt", "--key", "model").code == 0
    assert list(package.open_weights("ckpt.v1")) == ["w"]


def test_notes_are_told_on_standard_error(faas: Faas, folder: Path) -> None:
    torch.save({"w": torch.tensor([1e6])}, folder / "big.pt")
    outcome = faas("snapshot", "import", "big.pt", "--dtype", "fp16")
    assert outcome.code == 0
    assert "note: 1 values of 1 tensors are too large" in outcome.err


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("models--org--My-Model/snapshots/0123", "My-Model"),
        ("plain", "plain"),
        ("odd name (1)", "odd-name-1"),
    ],
)
def test_it_is_called_like_its_folder_or_repository(faas: Faas, folder: Path, source: str, name: str) -> None:
    (folder / source).mkdir(parents=True)
    save_file(layers(), folder / source / "model.safetensors")
    assert json.loads(faas("snapshot", "import", source, "--json").out)["name"] == name


def test_a_name_that_no_store_takes_is_a_wrong_call(faas: Faas, model: Path) -> None:
    outcome = faas("snapshot", "import", str(model), "--name", "../up")
    assert outcome.code != 0
    assert "'../up'" in outcome.err


def test_a_name_that_a_function_has_is_refused(faas: Faas, model: Path, home: Path) -> None:
    (home / "snapshots").mkdir(parents=True)
    from tests.cli.test_snapshot import KEPT

    (model.parent / "kept.py").write_text(KEPT)
    command = [sys.executable, "-m", "faas.cli.main", "snapshot", "create", "kept.py"]
    subprocess.run(command, check=True, capture_output=True, timeout=100, env={**os.environ, "FAAS_HOME": str(home)})
    outcome = faas("snapshot", "import", str(model), "--name", "scale")
    assert outcome.code == 2
    assert "function's name" in outcome.err


def test_a_type_that_is_not_offered_is_a_wrong_call(faas: Faas, model: Path) -> None:
    outcome = faas("snapshot", "import", str(model), "--dtype", "int4")
    assert outcome.code == 2
    assert "bf16" in outcome.err


def test_a_terminal_sees_a_bar(model: Path, home: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "faas.cli.main", "snapshot", "import", str(model), "--name", "tiny"]
    env = {**os.environ, "FAAS_HOME": str(home), "TERM": "xterm", "COLUMNS": "100"}
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=env, timeout=100)
        os.close(theirs)
        shown = os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
    assert done.returncode == 0
    assert "importing Tiny Model" in shown
    assert "\x1b[" in shown
    assert "importing" not in done.stdout.decode()


def test_a_name_that_a_store_refuses_is_a_wrong_call(faas: Faas, model: Path) -> None:
    outcome = faas("snapshot", "import", str(model), "--name", "a/b")
    assert outcome.code == 2
    assert "'a/b' is no name" in outcome.err
    assert "--name NAME" in outcome.err
