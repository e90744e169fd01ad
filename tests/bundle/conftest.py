from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
Run = Callable[..., subprocess.CompletedProcess[str]]


def run(*args: str, cwd: Path | str = "/", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python on a script, away from the project, or as the command that `-m faas.cli.main` is."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *(["-P"] if args[0] == "-m" else []), *args],
        cwd=cwd,
        env={**kept, "PYTHONDONTWRITEBYTECODE": "1", **environ},
        capture_output=True,
        text=True,
        timeout=100,
    )


def said(done: subprocess.CompletedProcess[str]) -> Any:
    """Return what a script that is done says as JSON on its last line."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def script(folder: Path, source: str, name: str = "main.py") -> Any:
    """Run a script of the user's in a folder, and return what it says."""
    (folder / name).write_text(source)
    return said(run(str(folder / name), cwd=folder))


def answers(bundles: Path, calls: dict[str, list[Any]]) -> dict[str, Any]:
    """Load bundles in one clean interpreter and return what their functions answer to each body."""
    wanted = bundles / "calls.json"
    wanted.write_text(json.dumps(calls))
    found: dict[str, Any] = said(run(str(HERE / "loading.py"), str(bundles), str(wanted)))
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
