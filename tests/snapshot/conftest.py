import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import snapshot

ROOT = Path(snapshot.__file__).parents[1]


@pytest.fixture
def fresh_process() -> Callable[..., Any]:
    """Runs a program in a new interpreter with arguments; what it prints last, as JSON, is the result."""

    def run(program: str, *arguments: object) -> Any:
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture
def roundtrip(tmp_path: Path) -> Callable[[Any], Any]:
    """Freezes a state, verifies the snapshot and thaws it."""
    count = 0

    def run(state: Any) -> Any:
        nonlocal count
        count += 1
        folder = tmp_path / f"roundtrip-{count}"
        snapshot.freeze(state, folder)
        snapshot.verify(folder)
        return snapshot.thaw(folder).state

    return run
