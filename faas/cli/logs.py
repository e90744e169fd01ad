"""`faas logs`: what a function printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click
import msgspec

from faas import address, names, settings
from faas.cli import listing
from faas.cli.control import Control
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.platform.logs import Line, LogFile
from faas.settings import Settings

_LINES: Final = msgspec.json.Decoder(Line)


@click.command()
@click.argument("name")
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until stopped.")
@click.option("--lines", "-n", type=click.IntRange(min=0), default=100, show_default=True, help="How many to show.")
@listing.option
def command(name: str, follow: bool, lines: int, as_json: bool) -> None:
    """Show the last lines that the function NAME printed, of all its instances. What is past is shown without a
    platform too."""
    name, found = names.label(name), settings.read()
    if follow or address.read_record(found) is not None:
        encoded = Control().lines(f"/functions/{name}/logs?follow={int(follow)}&lines={lines}")
        shown: Iterable[Line] = (_LINES.decode(line) for line in encoded)
    else:
        shown = _past(name, lines, found)
    try:
        for line in shown:
            click.echo(msgspec.json.encode(line) if as_json else f"{line.time} {line.instance} {line.text}")
    except KeyboardInterrupt:
        return


def _past(name: str, num_lines: int, found: Settings) -> list[Line]:
    file = LogFile(found.logs, name)
    if not file.path.is_file():
        kept = sorted(path.stem for path in found.logs.glob("*.jsonl") if path.suffixes == [".jsonl"])
        near = names.suggestion(name, kept) or (f"; there are logs of: {', '.join(kept)}" if kept else "")
        raise Failure(f"there is no log of {name!r}{near}", "faas up TARGET serves it and keeps one", CALL_WAS_WRONG)
    return file.last(num_lines)
