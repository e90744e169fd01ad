"""`faas snapshot push`: a snapshot into a store in S3."""

from __future__ import annotations

from pathlib import Path

import click

from faas.cli import listing, remote, stored
from faas.cli import store as stores
from faas.cli.listing import duration, size
from faas.clock import monotonic
from snapshot.manifest_reading import read_manifest


@click.command("push")
@click.argument("name")
@click.argument("address", metavar="S3://BUCKET/PREFIX")
@click.option("--as", "called", metavar="NAME", help="What it is called there; default: as here.")
@click.option(
    "--prefetch/--no-prefetch",
    default=None,
    help="Pin it, so that nodes with a cache fetch it before anybody asks; or have none of its name pinned any more.",
)
@remote.endpoint_option
@stores.option
@listing.option
def command(
    name: str,
    address: str,
    called: str | None,
    prefetch: bool | None,
    endpoint: str | None,
    store: Path | None,
    as_json: bool,
) -> None:
    """Copy a snapshot to S3 and make it the latest of its name there. Only files that are missing there are sent.

    NAME is a function or model, NAME@DIGEST one of its older snapshots, or a folder.
    """
    with remote.failures():
        target = remote.open_store(address, endpoint)
    found, folder = stored.find(name, stores.root(store))
    own = found.name if found is not None else folder.name if Path(name) == folder else folder.parent.name
    begun = monotonic()
    with remote.failures():
        pushed = remote.push(target, called or own, folder)
        if prefetch is not None:
            remote.pin(target, pushed, endpoint, keep=prefetch)
    row = {
        "name": pushed.name,
        "address": f"{target.address}/{pushed.name}",
        "digest": pushed.digest,
        "size_bytes": sum({record.digest: record.num_bytes for record in read_manifest(folder).all_files}.values()),
        "push_s": monotonic() - begun,
        "prefetch": prefetch,
    }
    listing.show(
        [row],
        {
            "name": lambda one: one["name"],
            "size": lambda one: size(one["size_bytes"]),
            "push": lambda one: duration(one["push_s"]),
            "digest": lambda one: one["digest"],
            "address": lambda one: one["address"],
        },
        as_json=as_json,
        none="",
    )
