from __future__ import annotations

import errno
import os

import click
import pytest

from faas import errors
from faas.cli import failure
from faas.cli.failure import Failure


@pytest.mark.parametrize(
    ("error", "code", "then"),
    [
        (Failure("x", "do this", 2), 2, "do this"),
        (errors.TargetError("x"), 2, "name a file"),
        (errors.SettingError("x"), 2, "correct it"),
        (errors.SchemaMismatch("x"), 2, "give other input"),
        (errors.RemoteError("x", 404), 2, "faas list"),
        (errors.RemoteError("x", 409), 1, "faas describe"),
        (errors.RemoteError("x", 422), 2, "give other input"),
        (errors.RemoteError("x", 500), 1, "faas logs"),
        (errors.PlatformError("x"), 1, "faas up"),
        (errors.DeadlineExceeded("x"), 1, "FAAS_DEBUG=1"),
        (click.ClickException("x"), 1, "faas --help"),
        (click.UsageError("x"), 2, "faas --help"),
        (PermissionError(13, "Permission denied", "/x"), 1, "make it readable"),
        (RuntimeError("x"), 1, "FAAS_DEBUG=1"),
    ],
)
def test_each_error_has_an_exit_code_and_a_next_step(error: Exception, code: int, then: str) -> None:
    what, next_step, exit_code = failure.describe(error)
    assert "x" in what
    assert then in next_step
    assert exit_code == code


def test_an_error_of_a_leaf_is_known_by_its_package() -> None:
    from snapshot.errors import SnapshotError

    assert failure.describe(SnapshotError("it is damaged")) == (
        "it is damaged",
        "faas snapshot create TARGET --force makes it again",
        1,
    )


def test_an_address_that_is_none_is_to_be_corrected() -> None:
    from snapshot.errors import BadAddressError

    assert failure.describe(BadAddressError("it is none")) == (
        "it is none",
        "correct the address, then give the same command again",
        2,
    )


def test_an_error_that_nobody_foresaw_gives_its_type() -> None:
    assert failure.describe(KeyError("k"))[0] == "unexpected KeyError: 'k'"


def test_a_message_of_many_lines_becomes_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert failure.report(errors.PlatformError("first\n   second")) == 1
    assert capsys.readouterr().err.splitlines()[0] == "error: first second"


def test_a_traceback_in_a_message_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    failure.report(errors.TargetError("ValueError: no\nTraceback (most recent call last):\n  File x\nValueError: no"))
    assert capsys.readouterr().err.splitlines()[0] == "error: ValueError: no"


def test_an_interrupt_is_one_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert failure.report(click.Abort()) == 1
    assert capsys.readouterr().err == "stopped\n"


def test_the_field_of_a_mismatch_is_told_unless_the_message_does() -> None:
    assert failure.in_full(errors.SchemaMismatch("Expected `str`", "$.name")) == "Expected `str` (at $.name)"
    assert failure.in_full(errors.SchemaMismatch("Expected `str`")) == "Expected `str`"
    assert failure.in_full(errors.BadInput("no")) == "no"


def test_a_setting_of_the_environment_that_is_wrong_does_not_hide_the_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAAS_LAME_DUCK_S", "soon")
    failure.report(errors.PlatformError("it is away"))
    assert capsys.readouterr().err.startswith("error: it is away\n")


@pytest.mark.parametrize(
    ("number", "then"),
    [(errno.ENOSPC, "make room"), (errno.EDQUOT, "make room"), (errno.EMFILE, "ulimit -n"), (errno.ENOMEM, "machine")],
)
def test_what_the_machine_is_short_of_is_said_with_what_to_do(number: int, then: str) -> None:
    what, what_then, code = failure.describe(OSError(number, os.strerror(number)))
    assert (what, code) == (os.strerror(number), 1)
    assert then in what_then
    assert failure.describe(OSError(number, os.strerror(number), "/a"))[0] == f"/a: {os.strerror(number)}"
