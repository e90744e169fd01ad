from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.conftest import Faas


def test_what_init_writes_runs_as_it_says(faas: Faas, folder: Path) -> None:
    wrote = faas("init")
    assert wrote.code == 0
    assert "faas run app.py --data '\"what a lovely day\"'" in wrote.out
    assert "faas serve app.py" in wrote.out
    ran = faas("run", "app.py", "--data", '"what a lovely day"')
    assert json.loads(ran.out) == {"score": 1.0, "words": 4}


def test_init_names_the_file_it_was_told_to_write(faas: Faas) -> None:
    faas("init", "mood.py")
    assert "faas run mood.py" in Path("mood.py").read_text()


def test_init_never_overwrites(faas: Faas) -> None:
    Path("app.py").write_text("mine = 1\n")
    outcome = faas("init")
    assert outcome.code == 2
    assert outcome.err.startswith("error: app.py exists already\nnext:  faas init ")
    assert Path("app.py").read_text() == "mine = 1\n"


def test_init_refuses_another_kind_of_file(faas: Faas) -> None:
    outcome = faas("init", "app.txt")
    assert outcome.code == 2
    assert "faas init app.py" in outcome.err


def test_init_says_why_it_cannot_write(faas: Faas) -> None:
    outcome = faas("init", "absent/app.py")
    assert outcome.code == 2
    assert f"absent/app.py cannot be written: {os.strerror(2)}" in outcome.err
