from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Faas

KEPT = """
import numpy as np
from faas import inference_function


@inference_function(warmup=[2])
class Scale:
    def setup(self) -> None:
        self.weights = np.arange(1000.0)

    def predict(self, n: int) -> float:
        return float(self.weights[n])
"""
UNKEPT = """
import socket
from faas import inference_function


@inference_function
class Connected:
    def setup(self) -> None:
        self.peer = socket.socketpair()

    def predict(self, n: int) -> int:
        return n
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a snapshot of `Scale` once, and give the folder of its file and its home."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "kept.py").write_text(KEPT)
    command = [sys.executable, "-m", "faas.cli.main", "snapshot", "create", "kept.py"]
    env = {**os.environ, "FAAS_HOME": str(folder / "home")}
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, timeout=100)
    return folder


@pytest.fixture
def kept(made: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of a snapshot of `Scale` that is the test's own, beside the file that it is of."""
    monkeypatch.chdir(made)
    shutil.copytree(made / "home", home, symlinks=True)
    record = home / "snapshots" / "scale.json"
    record.write_text(record.read_text().replace(str(made / "home"), str(home)))
    return Path(json.loads(record.read_text())["snapshot"])


def test_create_makes_a_snapshot_inspect_shows_it_and_verify_checks_it(
    faas: Faas, faas_process: Faas, home: Path
) -> None:
    Path("kept.py").write_text(KEPT)
    created = faas_process("snapshot", "create", "kept.py:Scale")
    assert created.code == 0, created.err
    heading, row = created.out.splitlines()
    assert heading.split() == ["FUNCTION", "STATE", "SETUP", "THAW", "COMPARED", "EXPORT", "SNAPSHOT"]
    assert row.split()[:3] == ["scale", "7.8", "KiB"]
    assert "yes" in row
    assert "freezing the state of scale\n" in created.err

    shown = dict(line.split(":", 1) for line in faas("snapshot", "inspect", "Scale").out.splitlines())
    assert shown["function"].strip() == "scale"
    assert shown["snapshot"].strip().startswith(str(home / "snapshots"))
    assert (shown["tensors"].strip(), shown["dtypes"].strip(), shown["compared"].strip()) == ("1", "F64", "yes")
    told = json.loads(faas("snapshot", "inspect", "scale", "--json").out)
    assert told["state_bytes"] == 8000
    assert told["stale"] is None

    verified = faas("snapshot", "verify", "scale")
    assert verified.code == 0
    assert verified.out.endswith("every digest is right\n")


def test_a_snapshot_is_inspected_and_verified_by_its_folder_too(faas: Faas, kept: Path) -> None:
    told = json.loads(faas("snapshot", "inspect", str(kept), "--json").out)
    assert told["num_tensors"] == 1
    assert "function" not in told
    assert faas("snapshot", "verify", str(kept)).out.startswith(str(kept))


def test_verify_says_what_it_read_as_json_too(faas: Faas, kept: Path) -> None:
    told = json.loads(faas("snapshot", "verify", "scale", "--json").out)
    assert (told["snapshot"], told["num_files"]) == (str(kept), 2)
    assert told["digest"].startswith(kept.name)
    assert told["size_bytes"] == sum(path.stat().st_size for path in kept.iterdir() if path.name != "manifest.json")
    assert told["verify_s"] >= 0


def test_what_has_not_changed_is_not_made_again_unless_forced(faas_process: Faas, kept: Path) -> None:
    assert "setting up scale" not in faas_process("snapshot", "create", "kept.py").err
    assert "setting up scale" in faas_process("snapshot", "create", "kept.py", "--force").err


def test_a_damaged_file_is_named_with_its_remedy(faas: Faas, kept: Path) -> None:
    shard = next(path for path in kept.rglob("*") if path.is_file() and path.stat().st_size > 8000)
    shard.chmod(0o644)
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    outcome = faas("snapshot", "verify", "scale")
    assert outcome.code == 1
    assert shard.name in outcome.err
    assert "next:  faas snapshot create TARGET --force makes it again" in outcome.err


def test_another_snapshot_in_its_place_is_an_error(faas: Faas, kept: Path, home: Path) -> None:
    record = home / "snapshots" / "scale.json"
    made = json.loads(record.read_text())
    record.write_text(json.dumps(made | {"digest": "0" * 64}))
    outcome = faas("snapshot", "verify", "scale")
    assert outcome.code == 1
    assert "holds another snapshot" in outcome.err
    assert outcome.err.endswith("kept.py:Scale --force\n")


def test_a_state_that_cannot_be_kept_is_an_error_with_the_reason(faas: Faas, faas_process: Faas) -> None:
    Path("unkept.py").write_text(UNKEPT)
    created = faas_process("snapshot", "create", "unkept.py")
    assert created.code == 1
    assert "error: connected has no snapshot, its instances run setup(): " in created.err
    assert "setup(): self.peer[0]: " in created.err
    verified = faas("snapshot", "verify", "connected")
    assert verified.code == 1
    assert "next:  faas snapshot create " in verified.err
    assert "peer" in json.loads(faas("snapshot", "inspect", "connected", "--json").out)["reason"]


def test_what_fails_keeps_no_other_from_being_made_and_all_of_it_is_told(faas: Faas) -> None:
    bad = (
        "\n\n@inference_function\nclass {}:\n    def setup(self): raise OSError('no {}')\n    def predict(self): ...\n"
    )
    Path("mixed.py").write_text(KEPT + bad.format("One", "disk") + bad.format("Two", "link"))
    outcome = faas("snapshot", "create", "mixed.py")
    assert outcome.code == 1
    assert "scale" in outcome.out
    assert "error: One.setup() raised OSError: no disk (mixed.py:" in outcome.err
    assert "; Two.setup() raised OSError: no link (mixed.py:" in outcome.err


def test_a_setup_that_fails_is_an_error_without_a_traceback(faas_process: Faas) -> None:
    Path("fails.py").write_text(KEPT.replace("np.arange(1000.0)", "1 / 0"))
    outcome = faas_process("snapshot", "create", "fails.py")
    assert outcome.code == 1
    error = next(line for line in outcome.err.splitlines() if line.startswith("error: "))
    assert "ZeroDivisionError: division by zero" in error
    assert "Traceback" not in error


@pytest.mark.slow
def test_another_store_holds_other_snapshots(faas: Faas, faas_process: Faas, folder: Path) -> None:
    Path("kept.py").write_text(KEPT)
    assert faas_process("snapshot", "create", "kept.py", "--store", "elsewhere").code == 0
    assert faas("snapshot", "verify", "scale", "--store", "elsewhere").out.startswith(str(folder / "elsewhere"))
    assert faas("snapshot", "verify", "scale").code == 2


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_a_function_that_has_nothing_names_the_nearest(faas: Faas, kept: Path, verb: str) -> None:
    outcome = faas("snapshot", verb, "scala")
    assert outcome.code == 2
    assert "has nothing of a function 'scala' (did you mean 'scale'?)" in outcome.err
    assert "; it has: scale" in faas("snapshot", verb, "zzz").err


def test_a_target_that_is_not_there_is_a_wrong_call(faas_process: Faas) -> None:
    outcome = faas_process("snapshot", "create", "absent.py")
    assert outcome.code == 2
    assert "absent.py: there is no such file" in outcome.err


@pytest.mark.slow
def test_what_cannot_be_exported_is_kept_as_it_is_and_create_says_why(faas: Faas, faas_process: Faas) -> None:
    Path("kept.py").write_text(KEPT)
    created = faas_process("snapshot", "create", "kept.py:Scale", "--export", "onnx")
    assert created.code == 1
    assert "scale is not exported, its instances run torch: setup(): it makes no torch module" in created.err
    told = json.loads(faas("snapshot", "inspect", "scale", "--json").out)
    assert (told["export"], told["compared"]) == (None, True)
    assert "no torch module" in told["export_reason"]
    again = faas_process("snapshot", "create", "kept.py:Scale", "--export", "none")
    assert again.code == 0, again.err
