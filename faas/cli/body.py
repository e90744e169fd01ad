"""The input of a call, as it is given on the command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from faas.cli.failure import CALL_WAS_WRONG, Failure

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"


@dataclass(frozen=True)
class Body:
    """What is sent, and its media type."""

    content: bytes
    media_type: str


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--data` and `--file`."""
    command = click.option(
        "--file", "-f", metavar="PATH", help="Send a file's bytes as they are; - for standard input."
    )(command)
    return click.option(
        "--data", "-d", metavar="JSON", help="Send this JSON; @PATH reads it from a file, - from input."
    )(command)


def read(data: str | None, file: str | None) -> Body | None:
    """Return the input that the two options give, None where neither is there.

    Raises:
        Failure: both are there, or a file cannot be read.
    """
    if data is not None and file is not None:
        raise Failure(
            "--data and --file were both given", "give one: --data for JSON, --file for bytes", CALL_WAS_WRONG
        )
    if file is not None:
        return Body(_content(file), BYTES)
    if data is None:
        return None
    if data == "-" or data.startswith("@"):
        return Body(_content(data.removeprefix("@")), JSON)
    return Body(data.encode(errors="surrogateescape"), JSON)


def quoted(text: str) -> str:
    """Return a text as a command line has it to be sent as JSON: itself where it is JSON, else as a string."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        text = msgspec.json.encode(text).decode()
    return shlex.quote(text)


def _content(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}", "name a file that can be", CALL_WAS_WRONG) from None
