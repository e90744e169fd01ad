from __future__ import annotations

import importlib
import os
import subprocess
import sys

import click
import pytest

from faas.cli.main import COMMANDS, main
from tests.cli.conftest import Faas

HEAVY = ("starlette", "uvicorn", "httpx", "torch", "loadgen", "rich", "watchfiles", "faas.client", "faas.server")


def test_help_lists_every_command_and_imports_none_of_them() -> None:
    code = "\n".join(
        [
            "import sys",
            "from faas.cli.main import main",
            "try: main(['--help'])",
            "except SystemExit as end: assert end.code == 0, end.code",
            f"print(sorted(m for m in sys.modules if m in {HEAVY!r} or m.startswith('faas.cli.')))",
        ]
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "['faas.cli.failure', 'faas.cli.main']"
    assert all(f"  {name} " in found.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_of_the_table_exists_and_explains_itself(name: str, faas: Faas) -> None:
    outcome = faas(name, "--help")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith(f"Usage: faas {name} ")
    assert isinstance(importlib.import_module(f"faas.cli.{name.replace('-', '_')}").command, click.Command)


def test_a_command_that_is_not_there_is_a_wrong_call(faas: Faas) -> None:
    outcome = faas("rnu")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines() == [
        "error: there is no command 'rnu' (did you mean 'run'?)",
        "next:  faas --help",
    ]


def test_a_wrong_option_says_which_help_to_read(faas: Faas) -> None:
    outcome = faas("run", "app.py", "--dta", "1")
    assert outcome.code == 2
    assert "No such option '--dta'" in outcome.err
    assert outcome.err.endswith("next:  faas run --help\n")


def test_the_version_is_printed(faas: Faas) -> None:
    assert faas("--version").out.startswith("faas, version ")


def test_an_error_is_two_lines_and_with_debug_a_traceback_too(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = faas("run", "absent.py")
    assert plain.code == 2
    assert len(plain.err.splitlines()) == 2
    monkeypatch.setenv("FAAS_DEBUG", "1")
    shown = faas("run", "absent.py")
    assert "Traceback (most recent call last)" in shown.err
    assert shown.err.endswith(plain.err)


def test_a_reader_that_leaves_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        found = subprocess.run([sys.executable, "-m", "faas.cli.main", "init"], stdout=gone, stderr=subprocess.PIPE)
    assert found.stderr == b""
    assert found.returncode == 1


def test_windows_is_refused_by_a_sentence_that_names_wsl(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    outcome = faas("init")
    assert outcome.code == 1
    assert "WSL" in outcome.err


def test_the_group_can_be_used_without_ending_the_process() -> None:
    with pytest.raises(click.UsageError):
        main.main(["run"], standalone_mode=False)
