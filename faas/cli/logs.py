"""`faas logs`: what a function printed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

import click
import msgspec

from faas import address, names, settings
from faas.cli import listing, where
from faas.cli.control import Control, named_elsewhere
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.where import Where
from faas.errors import RemoteError
from faas.platform.logs import Line, LogFile
from faas.settings import Settings

_LINES: Final = msgspec.json.Decoder(Line)


@click.command()
@click.argument("name")
@where.options
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until stopped.")
@click.option("--lines", "-n", type=click.IntRange(min=0), default=100, show_default=True, help="How many to show.")
@listing.option
def command(name: str, where: Where, follow: bool, lines: int, as_json: bool) -> None:
    """Show the last lines that the function NAME printed, of all its instances. What is past is shown without a
    platform too; of a cluster, what the instances that there are have written."""
    if _is_of_cluster(name, where):
        from faas.cli.cluster import logs  # the Kubernetes client is for this alone

        with contextlib.suppress(KeyboardInterrupt):
            logs.show(name, where, lines=lines, follow=follow, as_json=as_json)
        return
    name, found = names.label(name), settings.read()
    shown: Iterable[Line]
    if follow or named_elsewhere(found) is not None:
        shown = _from_platform(name, lines, follow=follow)
    elif address.read_record(found) is not None:
        shown = _of_running(name, lines, found)
    else:
        shown = _past(name, lines, found)
    nothing = True
    try:
        for line in shown:
            nothing = False
            click.echo(msgspec.json.encode(line) if as_json else f"{line.time} {line.instance} {line.text}")
    except KeyboardInterrupt:
        return
    if follow:
        click.echo(f"{name} is served no more", err=True)
    elif nothing and lines:
        click.echo(f"{name} has logged nothing", err=True)


def _is_of_cluster(name: str, where: Where) -> bool:
    """Tell whether a cluster is meant; a log that was kept here is meant rather, where no option says so."""
    if where.names_cluster:
        return True
    return where.is_cluster and not LogFile(settings.read().logs, names.label(name)).path.is_file()


def _from_platform(name: str, num_lines: int, *, follow: bool) -> Iterator[Line]:
    for line in Control.named().lines(f"/functions/{name}/logs?follow={int(follow)}&lines={num_lines}"):
        yield _LINES.decode(line)


def _of_running(name: str, num_lines: int, found: Settings) -> list[Line]:
    """Return what the platform tells; of a function that it does not serve now, what was kept when it did."""
    try:
        return list(_from_platform(name, num_lines, follow=False))
    except RemoteError:
        if not LogFile(found.logs, name).path.is_file():
            raise
        return _past(name, num_lines, found)


def _past(name: str, num_lines: int, found: Settings) -> list[Line]:
    file = LogFile(found.logs, name)
    if not file.path.is_file():
        kept = sorted(path.stem for path in found.logs.glob("*.jsonl") if path.suffixes == [".jsonl"])
        near = names.suggestion(name, kept) or (f"; there are logs of: {', '.join(kept)}" if kept else "")
        raise Failure(f"there is no log of {name!r}{near}", "faas up TARGET serves it and keeps one", CALL_WAS_WRONG)
    return file.last(num_lines)
