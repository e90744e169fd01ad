"""What the instances of a function on a cluster write."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

import click

from deploy.knative.log_text import plain
from deploy.knative.logs import LogLine
from faas import codec
from faas.cli import where
from faas.cli.where import Where


def show(name: str, found: Where, *, lines: int, follow: bool, as_json: bool) -> None:
    """Write the last lines of all instances, and with `follow` those that come."""
    with found.connected() as cluster:
        label = where.service(name, cluster)
        if not follow:
            found_ones = _last(cluster.logs(label, tail=lines), lines)
            for line in found_ones:
                _write(line, as_json)
            if lines and not found_ones:
                click.echo(f"{name} has no instance now that has logged anything; a call starts one", err=True)
            return
        with closing(cluster.follow_logs(label, tail=lines)) as coming:
            for line in coming:
                _write(line, as_json)


def _last(found: list[LogLine], lines: int) -> list[LogLine]:
    return found[len(found) - min(lines, len(found)) :]


def _write(line: LogLine, as_json: bool) -> None:
    if as_json:
        click.echo(codec.encode(asdict(line)))
        return
    for part in plain(line.text).split("\n"):
        click.echo(f"{_stamp(line.at)} {line.pod} {part}")


def _stamp(at: str) -> str:
    """A stamp to the millisecond: container runtimes write nine digits, or fewer."""
    second, _, fraction = at.removesuffix("Z").partition(".")
    return f"{second}.{fraction[:3]:0<3}Z" if at else "-"
