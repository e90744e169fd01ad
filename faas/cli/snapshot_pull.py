"""`faas snapshot pull`: a snapshot from a store in S3."""

from __future__ import annotations

from pathlib import Path

import click

import snapshot
from faas import budget
from faas.cli import listing, progress, remote
from faas.cli import store as stores
from faas.cli.listing import duration, size
from faas.clock import monotonic
from snapshot.s3_address import S3Address


@click.command("pull")
@click.argument("address", metavar="S3://BUCKET/PREFIX/NAME")
@remote.endpoint_option
@stores.option
@listing.option
def command(address: str, endpoint: str | None, store: Path | None, as_json: bool) -> None:
    """Copy the latest snapshot of NAME, or the one that NAME@DIGEST says, from S3 into the local store.

    Each piece is checked as it comes. A pull that was stopped goes on where it was; files that are here are not
    fetched.
    """
    into, begun = snapshot.LocalStore(stores.root(store)), monotonic()
    with remote.failures():
        where, name, digest = S3Address.of_snapshot(address)
        source = remote.open_store(where, endpoint)
        with progress.of_bytes(f"pulling {name}") as show, source.pull(name, digest, into=into, progress=show) as pull:
            pulled = pull.finish()
    budget.hold(into)
    row = {
        "name": pulled.name,
        "digest": pulled.digest,
        "size_bytes": pull.total_bytes,
        "pull_s": monotonic() - begun,
        "snapshot": str(into.folder(pulled)),
    }
    listing.show(
        [row],
        {
            "name": lambda one: one["name"],
            "size": lambda one: size(one["size_bytes"]),
            "pull": lambda one: duration(one["pull_s"]),
            "snapshot": lambda one: one["snapshot"],
        },
        as_json=as_json,
        none="",
    )
