"""From an error to what the user is told: one line of what happened, one of what to do next, and an exit code."""

from __future__ import annotations

import errno
import traceback
from typing import Final

import click

from faas import errors

WORK_FAILED: Final = 1
CALL_WAS_WRONG: Final = 2

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_WRONG_REQUESTS: Final = (400, 405, 413, 415, 422)
_MAKE_ROOM: Final = "make room where FAAS_HOME and the temporary folder are; faas snapshot gc may do"
_SHORT_OF: Final = {
    errno.ENOSPC: _MAKE_ROOM,
    errno.EDQUOT: _MAKE_ROOM,
    errno.EMFILE: "raise the limit of open files: ulimit -n",
    errno.ENFILE: "raise the machine's limit of open files: sysctl fs.file-max",
    errno.ENOMEM: "let something else on this machine go",
}
_DEBUG: Final = "the same command with FAAS_DEBUG=1 shows where it happened"


class Failure(click.ClickException):
    """What went wrong, and what to do next."""

    def __init__(self, what: str, then: str, code: int = WORK_FAILED) -> None:
        super().__init__(what)
        self.then = then
        self.code = code


def report(error: Exception) -> int:
    """Tell the user on standard error what happened. Returns the exit code."""
    if _wants_traceback():
        traceback.print_exception(error)
    if isinstance(error, click.Abort):
        click.echo("stopped", err=True)
        return WORK_FAILED
    what, then, code = describe(error)
    click.echo(f"{click.style('error:', fg='red')} {_one_line(what)}", err=True)
    click.echo(f"{click.style('next:', fg='cyan')}  {_one_line(then)}", err=True)
    return code


def describe(error: Exception) -> tuple[str, str, int]:
    """Return what happened, what to do next, and the exit code."""
    if isinstance(error, Failure):
        return error.message, error.then, error.code
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx is not None else "faas"
        return error.format_message(), f"{command} --help", CALL_WAS_WRONG
    if isinstance(error, click.ClickException):
        return error.format_message(), "faas --help", error.exit_code
    if isinstance(error, errors.FaasError):
        return _ours(error)
    from faas.targets import OURS  # the way of errors alone: help is to be quick

    package = type(error).__module__.partition(".")[0]
    if package in OURS:
        if type(error).__name__ == "BadAddressError":  # by name: few commands import what it is of
            return str(error), "correct the address, then give the same command again", CALL_WAS_WRONG
        code = CALL_WAS_WRONG if isinstance(error, ValueError) else WORK_FAILED
        return str(error), _AFTER_LEAF.get(package, _DEBUG), code
    if isinstance(error, OSError) and error.errno in _SHORT_OF:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}", _SHORT_OF[error.errno], WORK_FAILED
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", "make it readable and writable, or choose another", WORK_FAILED
    return f"unexpected {type(error).__name__}: {error}", _DEBUG, WORK_FAILED


def _ours(error: errors.FaasError) -> tuple[str, str, int]:
    if isinstance(error, errors.NotPrepared):
        return str(error), "correct it, then give the same command again", WORK_FAILED
    if isinstance(error, errors.TargetError):
        then = _A_TARGET if error.__cause__ is None else "correct it, then give the same command again"
        return str(error), then, CALL_WAS_WRONG
    if isinstance(error, errors.SettingError):
        return str(error), "correct it, then give the same command again", CALL_WAS_WRONG
    if type(error).__module__ == "faas.bundle.errors":  # by name: few commands import what packs
        return str(error), _AFTER_BUNDLE, WORK_FAILED
    if isinstance(error, errors.BadTrace):
        return (
            str(error),
            "give a CSV with app, func, end_timestamp, duration, as faas simulate --help says",
            CALL_WAS_WRONG,
        )
    if isinstance(error, errors.BadInput):
        return in_full(error), _OTHER_INPUT, CALL_WAS_WRONG
    if isinstance(error, errors.RemoteError):
        if error.status == _NOT_FOUND:
            return str(error), "faas list shows the functions that are served", CALL_WAS_WRONG
        if error.status == _CONFLICT:
            return (
                str(error),
                "faas describe NAME shows what there is; faas logs NAME shows why a start failed",
                WORK_FAILED,
            )
        if error.status in _WRONG_REQUESTS:
            return str(error), _OTHER_INPUT, CALL_WAS_WRONG
        return str(error), "faas logs NAME shows more", WORK_FAILED
    if isinstance(error, errors.PlatformError):
        return str(error), "faas up TARGET starts the platform", WORK_FAILED
    return str(error), _DEBUG, WORK_FAILED


_OTHER_INPUT: Final = "give other input: --data JSON, --data @FILE or --file PATH"
_A_TARGET: Final = "name a file (app.py), a function of it (app.py:Embed) or a module (pkg.app)"
_AFTER_BUNDLE: Final = "faas bundle TARGET -o FOLDER makes a bundle; docs/bundles.md says what travels"
_AFTER_LEAF: Final = {
    "snapshot": "faas snapshot create TARGET --force makes it again",
    "loadgen": "faas bench --help",
}


def in_full(error: errors.BadInput) -> str:
    """Return what is wrong with an input, and where in it."""
    return errors.at_field(str(error), getattr(error, "field", "$"))


def _wants_traceback() -> bool:
    from faas import settings  # the way of errors alone: help is to be quick

    try:
        return settings.read().debug
    except errors.SettingError:
        return False


def _one_line(text: str) -> str:
    """Return a text of several lines as one, without the traceback that it may hold."""
    return " ".join(text.partition("Traceback (most recent")[0].split()) or "no reason was given"
