"""What is written beside the state itself."""

from pathlib import Path

import numpy as np
import pytest

import snapshot
from snapshot import BadDateError


def test_equal_states_are_one_snapshot_where_the_date_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    made = [snapshot.freeze({"table": np.arange(9)}, tmp_path / name) for name in ("one", "other")]
    assert made[0].created_at == "2023-11-14T22:13:20+00:00"
    assert made[0].digest == made[1].digest


def test_else_each_has_the_time_at_which_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    made = [snapshot.freeze({"table": np.arange(9)}, tmp_path / name) for name in ("one", "other")]
    assert made[0].created_at < made[1].created_at
    assert made[0].shards == made[1].shards


@pytest.mark.parametrize("epoch", ["", "yesterday", "1e9", "9" * 30])
def test_what_is_no_date_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with pytest.raises(BadDateError, match="must be whole seconds since 1970"):
        snapshot.freeze({"table": np.arange(9)}, tmp_path / "made")
    assert not (tmp_path / "made").exists()
