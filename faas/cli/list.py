"""`faas list`: the platform's functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from faas.cli import listing, where
from faas.cli.control import Control
from faas.cli.listing import duration
from faas.cli.where import Where


@click.command()
@where.options
@click.option("--all-namespaces", is_flag=True, help="Of all namespaces of the cluster.")
@listing.option
def command(where: Where, all_namespaces: bool, as_json: bool) -> None:
    """List the functions of the platform that runs here, or those on the cluster: where they are, their instances."""
    if all_namespaces or where.is_cluster:
        from faas.cli.cluster import services  # the Kubernetes client is for this alone

        services.show_all(where, all_namespaces=all_namespaces, as_json=as_json)
        return
    columns: listing.Columns = {
        "function": lambda row: row["name"],
        "url": lambda row: row["url"],
        "revision": _revisions,
        "ready": lambda row: f"{row['ready']}/{row['instances']}",
        "requests": lambda row: row["requests"],
        "failed": lambda row: row["failed"],
        "starts": lambda row: row["starts"],
        "last start": lambda row: duration(row["last_start_ms"]["total"] / 1e3) if row["last_start_ms"] else None,
        "begins by": lambda row: "snapshot" if row["snapshot"] else "setup()",
        "failure": lambda row: row["failure"],
    }
    listing.show(Control.named().get("/functions"), columns, as_json=as_json, none="no functions")


def _revisions(row: Mapping[str, Any]) -> Any:
    """Return the revision that has all calls, or how they are shared."""
    if len(row["traffic"]) < 2:
        return row["revision"]
    return ", ".join(f"{revision} {percent}%" for revision, percent in row["traffic"].items())
