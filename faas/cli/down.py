"""`faas down`: the end of the one-box platform."""

from __future__ import annotations

import contextlib
import os
import select
import signal

import click

from faas import address, settings
from faas.address import Record
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
    """Stop the platform that runs here or is coming up: calls in flight are answered first. Returns when its process
    has ended."""
    found = settings.read()
    record = address.read_record(found)
    if record is not None and not os.path.exists(record.control):  # its folder was moved; the lock went with it
        record = None
    pid = address.holder(found) if record is None else record.pid
    if pid is None:
        click.echo("no platform runs here")
        return
    with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
        _end(pid, record, timeout_s)
    click.echo("the platform has ended")


def _end(pid: int, record: Record | None, timeout_s: float) -> None:
    """Tell the platform to end, and wait until its process has. One without a record yet hears signals alone."""
    process = os.pidfd_open(pid)
    try:
        if record is None:
            signal.pidfd_send_signal(process, signal.SIGTERM)
        else:
            Control.of(record).post("/shutdown")
        ended, _, _ = select.select([process], [], [], timeout_s)
    finally:
        os.close(process)
    if not ended:
        what = f"the platform (process {pid}) has not ended within {timeout_s:g} s"
        raise Failure(what, "faas down, given again, ends it at once")
