"""`faas snapshot gc`: what nothing needs goes, and the least recently used snapshots down to a budget."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from faas import quantities, settings
from faas.cli import listing
from faas.cli import store as stores
from faas.cli.listing import duration, size
from snapshot.cache import Holder
from snapshot.collect import Collected, collect
from snapshot.local_store import LocalStore


@click.command("gc")
@click.option(
    "--budget",
    metavar="SIZE",
    help=f"What all snapshots together may take, as 20Gi; default: {settings.SNAPSHOT_CACHE_BYTES}.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and leave it.")
@stores.option
@listing.option
def command(budget: str | None, dry_run: bool, store: Path | None, as_json: bool) -> None:
    """Remove what killed processes left and what no snapshot needs; with a budget, snapshots too.

    Those go that were used the longest ago, until the rest fits; never one that a process has mapped.
    """
    budget_bytes = settings.read().snapshot_cache_bytes if budget is None else _bytes(budget)
    done = collect(LocalStore(stores.root(store)), budget_bytes, dry_run=dry_run)
    now = time.time()
    rows = [_row(one, reason, now, goes=True) for one, reason in done.going]
    rows += [_row(one, reason, now, goes=False) for one, reason in done.staying]
    if as_json:
        listing.write_json({**_sums(done, budget_bytes), "dry_run": dry_run, "items": rows})
        return
    listing.show(
        rows,
        {
            "": lambda row: "goes" if row["goes"] else "stays",
            "what": lambda row: row["kind"],
            "name": lambda row: row["name"],
            "digest": lambda row: row["digest"][:16],
            "size": lambda row: size(row["size_bytes"]),
            "used": lambda row: row["unused_s"] and f"{duration(row['unused_s'])} ago",
            "because it": lambda row: row["reason"],
        },
        as_json=False,
        none="there is nothing in the store",
    )
    _say(done, budget_bytes, dry_run=dry_run)


def _bytes(budget: str) -> int:
    """Return a size that is given to the command; 0 is one, with which all goes that is not in use."""
    return 0 if budget.strip() == "0" else quantities.parse_bytes(budget, "--budget")


def _row(one: Holder, reason: str, now: float, *, goes: bool) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "name": one.name or None,
        "digest": one.digest,
        "path": str(one.path),
        "size_bytes": one.num_bytes,
        "unused_s": max(0.0, now - one.last_used) if one.last_used else None,
        "goes": goes,
        "reason": reason,
    }


def _sums(done: Collected, budget_bytes: int | None) -> dict[str, Any]:
    return {
        "before_bytes": done.before_bytes,
        "after_bytes": done.after_bytes,
        "budget_bytes": budget_bytes,
        "num_unseen_processes": done.num_unseen,
    }


def _say(done: Collected, budget_bytes: int | None, *, dry_run: bool) -> None:
    verb = "would free" if dry_run else "freed"
    click.echo(f"{verb} {size(done.before_bytes - done.after_bytes)} of {size(done.before_bytes)}", err=True)
    if budget_bytes is not None and done.after_bytes > budget_bytes:
        click.echo(f"{size(done.after_bytes)} are in use, more than the budget of {size(budget_bytes)}", err=True)
    if done.num_unseen:
        processes = "1 process" if done.num_unseen == 1 else f"{done.num_unseen} processes"
        click.echo(
            f"{processes} could not be looked into; what is removed stays in memory for those who map it", err=True
        )
