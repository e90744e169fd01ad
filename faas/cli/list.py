"""`faas list`: the platform's functions."""

from __future__ import annotations

from collections.abc import Mapping

import click

from faas.cli import listing
from faas.cli.control import Control
from faas.cli.listing import duration


@click.command()
@listing.option
def command(as_json: bool) -> None:
    """List the functions of the platform that runs here: where they are, their instances, what they have answered."""
    columns: listing.Columns = {
        "function": lambda row: row["name"],
        "url": lambda row: row["url"],
        "revision": lambda row: row["revision"],
        "traffic": lambda row: _split(row["traffic"]),
        "ready": lambda row: f"{row['ready']}/{row['instances']}",
        "requests": lambda row: row["requests"],
        "failed": lambda row: row["failed"],
        "starts": lambda row: row["starts"],
        "last start": lambda row: duration(row["last_start_ms"]["total"] / 1e3) if row["last_start_ms"] else None,
        "begins by": lambda row: "snapshot" if row["snapshot"] else "setup()",
        "failure": lambda row: row["failure"],
    }
    listing.show(Control().get("/functions"), columns, as_json=as_json, none="no functions")


def _split(traffic: Mapping[str, int]) -> str:
    """Return how calls are shared where it is not one revision that has them all."""
    return "/".join(str(percent) for percent in traffic.values()) if len(traffic) > 1 else ""
