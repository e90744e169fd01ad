"""Headers of a request, as they are given on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2


def option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--header`, as the argument `sent`."""
    return click.option(
        "--header", "-H", "sent", multiple=True, metavar="'NAME: VALUE'", help="Send this header, too; may be repeated."
    )(command)


def read(sent: Sequence[str]) -> dict[str, str]:
    """Return the headers that the option gives, their names in lower case.

    Raises:
        BadParameter: one is no header.
    """
    return dict(map(_header, sent))


def _header(text: str) -> tuple[str, str]:
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon or not _NAME.fullmatch(name) or not (value.isascii() and value.isprintable()):
        raise click.BadParameter(f"{text!r} is no header: write 'NAME: VALUE'", param_hint="--header")
    return name.lower(), value
