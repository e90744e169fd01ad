"""A function's revisions, as several commands show them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import click

from faas.cli import listing


def show(function: Mapping[str, Any], *, as_json: bool) -> None:
    """Write all that is known of a function as JSON, or a table of its revisions, the newest first."""
    if as_json:
        listing.write_json(function)
    else:
        listing.show(function["all_revisions"], _COLUMNS, as_json=False, none="no revisions")


def when(unix_s: float) -> str:
    """Return a time as people here read it."""
    return datetime.datetime.fromtimestamp(unix_s).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def of_stamp(stamp: str) -> str | None:
    """Return an API server's time (RFC 3339, or nothing) as people here read it."""
    return when(datetime.datetime.fromisoformat(stamp).timestamp()) if stamp else None


def shares(function: Mapping[str, Any]) -> str:
    """Return how a function's calls are shared, in a line."""
    return ", ".join(f"{revision} {percent}%" for revision, percent in function["traffic"].items()) or "none"


def tell_shares(function: Mapping[str, Any]) -> None:
    """Say how a function's calls are shared now."""
    click.echo(f"{function['name']}: {shares(function)}")


_COLUMNS: listing.Columns = {
    "revision": lambda row: row["revision"],
    "number": lambda row: row["number"],
    "deployed": lambda row: when(row["deployed_at"]),
    "state": lambda row: row["state"],
    "traffic": lambda row: f"{row['percent']}%",
    "tags": lambda row: ", ".join(row["tags"]),
    "ready": lambda row: f"{row['ready']}/{row['instances']}",
    "requests": lambda row: row["requests"],
    "begins by": lambda row: "snapshot" if row["snapshot"] else "setup()",
    "failure": lambda row: row["failure"],
}
