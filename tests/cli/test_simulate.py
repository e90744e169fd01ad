"""`faas simulate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Faas


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "trace.csv"
    rows = [f"a,f,{600 * number + 6},0.5" for number in range(20)]
    made.write_text("\n".join(["app,func,end_timestamp,duration", *rows]) + "\n")
    return made


def test_both_ways_of_keeping_warm_are_compared(faas: Faas, path: Path) -> None:
    done = faas("simulate", str(path), "--json")
    assert done.code == 0, done.err
    fixed, histogram = json.loads(done.out)
    assert (fixed["keep_alive"], fixed["num_calls"], fixed["num_cold"], fixed["cold_share"]) == ("fixed", 20, 20, 1.0)
    assert histogram["num_cold"] == 1
    assert histogram["instance_s"] > 0


def test_settings_given_replace_the_defaults(faas: Faas, path: Path) -> None:
    done = faas("simulate", str(path), "--window", "700", "--keep-alive", "fixed", "--max-instances", "2")
    assert done.code == 0, done.err
    heading, row = done.out.splitlines()
    assert heading.split()[:3] == ["KEEP-ALIVE", "WINDOW", "CALLS"]
    assert row.split()[:4] == ["fixed", "12", "min", "20"]
    assert "5.00%" in row


def test_the_settings_of_a_function_are_its_own(faas: Faas, path: Path, tmp_path: Path) -> None:
    app = tmp_path / "kept.py"
    app.write_text(
        "from faas import Scaling, inference_function\n\n\n"
        "@inference_function(scaling=Scaling(scaledown_window_s=900))\n"
        "def hello(name: str) -> str:\n    return name\n"
    )
    done = faas("simulate", str(path), str(app), "--keep-alive", "fixed", "--json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)
    assert (row["scaledown_window_s"], row["num_cold"]) == (900.0, 1)


def test_what_is_no_trace_is_told(faas: Faas, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,2\n")
    done = faas("simulate", str(wrong))
    assert done.code == 2
    assert "is no trace: its first line must name the columns app, func, end_timestamp, duration" in done.err
