"""Listings: JSON for programs, a table for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec

from faas import codec

Columns = Mapping[str, Callable[[Mapping[str, Any]], Any]]


def option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON.")(command)


def show(rows: Sequence[Mapping[str, Any]], columns: Columns, *, as_json: bool, none: str) -> None:
    """Write `rows`: as JSON with all that they hold, or the cells of `columns` under their headings.

    `none` is what a person is told where there are no rows.
    """
    if as_json:
        write_json(rows)
    elif not rows:
        click.echo(none)
    else:
        cells = [[_text(of(row)) for of in columns.values()] for row in rows]
        for line in _aligned([[heading.upper() for heading in columns], *cells]):
            click.echo(line)


def write_json(value: Any) -> None:
    """Write JSON for a program, with a line for each member that people can read too."""
    click.echo(msgspec.json.format(codec.encode(value), indent=2))


def notes(texts: Iterable[str]) -> None:
    """Write notes for people, a line each, to standard error."""
    for text in texts:
        click.echo(f"{click.style('note:', fg='yellow')} {text}", err=True)


def _text(value: Any) -> str:
    return "-" if value is None or value == "" else str(value)


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def duration(seconds: float | None) -> str | None:
    """Return a duration as people read it: `0.4 s`, `3 min`, `2 h`."""
    if seconds is None:
        return None
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def size(num_bytes: int | None) -> str | None:
    """Return a number of bytes as people read it, in powers of 1024."""
    if num_bytes is None:
        return None
    value, units = float(num_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"
