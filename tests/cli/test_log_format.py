from __future__ import annotations

import datetime
import json
import logging
import sys

import pytest

from faas.cli import log_format


def test_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_format.configure("json")
    logging.getLogger("a.b").info("one\n%d", 2)
    line = json.loads(capsys.readouterr().err)
    assert datetime.datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line == {"level": "info", "logger": "a.b", "message": "one\n2"}


def test_json_holds_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    log_format.configure("json")
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("a").exception("failed")
    line = json.loads(capsys.readouterr().err)
    assert line["level"] == "error"
    assert line["traceback"].endswith("ValueError: bad")


def test_console_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    log_format.configure("console")
    logging.getLogger("a").warning("said")
    assert capsys.readouterr().err.endswith(" WARNING said\n")


@pytest.mark.parametrize(("is_terminal", "is_json"), [(True, False), (False, True)])
def test_a_terminal_decides_where_nobody_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool, is_json: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    log_format.configure(None)
    logging.getLogger("a").warning("said")
    assert capsys.readouterr().err.startswith("{") == is_json
