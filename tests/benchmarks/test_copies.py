"""A copy of a function that was made ready is ready under its own name."""

import asyncio

import pytest

from benchmarks import copies
from faas.preparation import Preparations

TEXT = """from faas import inference_function


@inference_function(name="first-one", warmup=[1])
class Function:
    def setup(self) -> None:
        self.added = 41

    def predict(self, number: int) -> int:
        return number + self.added
"""


def test_a_copy_is_fresh_and_shares_the_snapshot(tmp_path):
    made = asyncio.run(copies.first(tmp_path, "first-one", TEXT))
    copied = copies.copy(tmp_path, made, "copy-1")
    assert made.snapshot is not None
    found = Preparations(tmp_path / "snapshots").fresh(copies.target(tmp_path, "copy-1"))
    assert found == {"copy-1": copied}
    assert copied.snapshot == made.snapshot
    assert copied.revision != made.revision
    assert "copy-1" in (tmp_path / "apps" / "copy_1.py").read_text()


def test_a_function_that_cannot_be_made_ready_is_told_of(tmp_path):
    with pytest.raises(RuntimeError, match="no function"):
        asyncio.run(copies.first(tmp_path, "none", "x = 1\n"))
