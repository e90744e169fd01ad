from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import faas
import snapshot
from snapshot.imports import import_model

APP = """
from faas import inference_function, open_weights


@inference_function(warmup=[[1.0, 2.0]])
class Line:
    def setup(self) -> None:
        import torch

        weights = open_weights("line")
        self.names = list(weights)
        self.model = torch.nn.Linear(2, 3)
        self.model.load_state_dict(weights, assign=True)

    def predict(self, x: list[float]) -> list[float]:
        import torch

        return self.model(torch.tensor(x)).tolist()
"""


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> torch.nn.Linear:
    """A module whose weights the local store has under the name `line`."""
    monkeypatch.setenv("FAAS_HOME", str(tmp_path / "home"))
    module = torch.nn.Linear(2, 3)
    torch.save(module.state_dict(), tmp_path / "line.pt")
    import_model(tmp_path / "line.pt", tmp_path / "imported")
    snapshot.LocalStore(tmp_path / "home" / "snapshots").publish("line", tmp_path / "imported")
    return module


def test_weights_open_by_the_name_that_they_have_in_the_store(line: torch.nn.Linear) -> None:
    weights = faas.open_weights("line")
    assert torch.equal(weights["weight"], line.weight)
    with pytest.raises(snapshot.SnapshotNotFoundError, match="line"):
        faas.open_weights("other")


def test_weights_open_by_their_folder(line: torch.nn.Linear, tmp_path: Path) -> None:
    assert list(faas.open_weights(tmp_path / "imported")) == list(faas.open_weights(str(tmp_path / "imported")))


@pytest.mark.slow
def test_a_handler_that_opens_weights_is_kept_and_answers_as_before(line: torch.nn.Linear, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, "-m", "faas.cli.main", "snapshot", "create", "app.py", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)[0]
    assert row["compared"] is True
    state = snapshot.open_weights(Path(row["snapshot"]))
    assert {tuple(tensor.shape) for tensor in state.values()} == {(3, 2), (3,)}
    assert any(torch.equal(tensor, line.weight) for tensor in state.values())
