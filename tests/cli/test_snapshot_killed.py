"""`faas snapshot create` killed, with all its processes, at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import snapshot
from snapshot import LocalStore
from snapshot.collect import collect
from tests.snapshot.killing import check_store, check_tidy

PROGRAM = """
import numpy as np
from faas import inference_function


@inference_function(warmup=[2])
class Scale:
    def setup(self) -> None:
        self.weights = np.arange(100_000.0)

    def predict(self, n: int) -> float:
        return float(self.weights[n])
"""


def create(timeout_s: float | None) -> float | None:
    """Run the command, killed after a time if one is given; how long it took when it ended before."""
    command = [sys.executable, "-m", "faas.cli.main", "snapshot", "create", "kept.py", "--force"]
    began_s = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            _, told = process.communicate(timeout=timeout_s)
            assert process.returncode == 0, told
            return time.monotonic() - began_s
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)


NUM_KILLS = 10


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_create_killed_at_random_moments_leaves_a_store_that_verifies(home: Path) -> None:
    Path("kept.py").write_text(PROGRAM)
    store = LocalStore(home / "snapshots")
    took_s = create(None)
    assert took_s is not None
    moments = random.Random(0)
    for _ in range(NUM_KILLS):
        create(moments.uniform(0.3, 0.95) * took_s)
        check_store(store)
        assert snapshot.thaw(store.folder(store.find("scale")))
    create(None)
    collect(store, None)
    check_store(store)
    check_tidy(store)
    assert len(store.history("scale")) <= 3
