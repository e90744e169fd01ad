"""`faas down`: the end of the one-box platform."""

from __future__ import annotations

import contextlib
import os
import select

import click

from faas import address, settings
from faas.cli.control import Control
from faas.cli.failure import Failure


@click.command()
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for calls in flight and for the end.",
)
def command(timeout_s: float) -> None:
    """Stop the platform that runs here: calls in flight are answered first. Returns when its process has ended."""
    record = address.read_record(settings.read())
    if record is None:
        click.echo("no platform runs here")
        return
    with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
        _end(Control(record), timeout_s)
    click.echo("the platform has ended")


def _end(control: Control, timeout_s: float) -> None:
    """Tell the platform to end, and wait until its process has."""
    pid = control.record.pid
    process = os.pidfd_open(pid)
    try:
        control.post("/shutdown")
        ended, _, _ = select.select([process], [], [], timeout_s)
    finally:
        os.close(process)
    if not ended:
        what = f"the platform (process {pid}) has not ended within {timeout_s:g} s"
        raise Failure(what, "faas down, given again, ends it at once")
