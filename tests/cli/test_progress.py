from __future__ import annotations

import sys

import pytest

from faas.cli import progress
from faas.slow_steps import Ongoing


def test_steps_are_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.steps() as step:
        step("one")
        step("two")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "one\ntwo\n")


def test_on_a_terminal_each_step_that_is_done_stays_with_its_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    times = iter([0.0, 1.5, 1.5, 61.5])
    with progress.steps(clock=lambda: next(times)) as step:
        step("one [of] two")
        step(Ongoing("still one after 1 s"))  # is no step of its own
        step("two")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "   1.5 s  one [of] two\n" in captured.err
    assert "  60.0 s  two\n" in captured.err


def test_time_that_passes_is_a_line_or_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress.of_time("load", 10):
        pass
    assert capsys.readouterr().err == "load for 10 s\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.of_time("load", 10):
        pass
    assert "load" in capsys.readouterr().err
