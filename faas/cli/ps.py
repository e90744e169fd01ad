"""`faas ps`: the platform's instances."""

from __future__ import annotations

import click

from faas.cli import listing
from faas.cli.control import Control
from faas.cli.listing import duration

COLUMNS: listing.Columns = {
    "instance": lambda row: row["id"],
    "function": lambda row: row["function"],
    "revision": lambda row: row["revision"],
    "state": lambda row: row["state"],
    "pid": lambda row: row["pid"],
    "age": lambda row: duration(row["age_s"]),
    "started by": lambda row: row["how"],
    "start": lambda row: duration(sum(row["start_ms"].values()) / 1e3) if row["start_ms"] else None,
}


@click.command()
@listing.option
def command(as_json: bool) -> None:
    """List the instances of the platform that runs here: what they serve, their state, how and how fast they began."""
    listing.show(
        Control.named().get("/instances"), COLUMNS, as_json=as_json, none="no instances: every function is at zero"
    )
