"""`faas snapshot`: what is kept of functions that were set up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

import snapshot
from faas.cli import (
    listing,
    progress,
    remote,
    snapshot_diff,
    snapshot_gc,
    snapshot_import,
    snapshot_inspect,
    snapshot_pull,
    snapshot_push,
    snapshot_versions,
    stored,
)
from faas.cli import store as stores
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.listing import duration, size
from faas.clock import monotonic
from faas.prepare import Prepared, prepare_each
from snapshot import Store
from snapshot.s3_address import is_s3


@click.group()
def command() -> None:
    """Create, inspect and verify snapshots: what setup() left, kept so that an instance need not run it."""


command.add_command(snapshot_import.command)
command.add_command(snapshot_inspect.command)
command.add_command(snapshot_diff.command)
command.add_command(snapshot_gc.command)
command.add_command(snapshot_push.command)
command.add_command(snapshot_pull.command)
command.add_command(snapshot_versions.listed)
command.add_command(snapshot_versions.delete)


@command.command()
@click.argument("target")
@click.option("--force", is_flag=True, help="Make it again, also where nothing has changed.")
@click.option("--version", type=click.IntRange(0), metavar="N", help="Keep what setup() leaves now as version N.")
@click.option(
    "--export",
    type=click.Choice(["onnx", "aoti", "none"]),
    help="Keep torch modules in a form that starts sooner: onnx needs no torch, aoti is compiled. It stays so when the "
    "snapshot is made again.",
)
@stores.any_option
@listing.option
def create(target: str, force: bool, version: int | None, export: str | None, store: str | None, as_json: bool) -> None:
    """Set up the functions of TARGET, freeze what that left, and check that it thaws to the same.

    With a store in S3 the snapshots are made in the local store and then pushed there. With --version setup() runs
    again, and what it leaves becomes a numbered version of the one function that TARGET names.
    """
    with remote.failures():
        pushing = remote.open_if_s3(store)
    numbered: list[Store] = [snapshot.LocalStore(stores.root(store)), *([pushing] if pushing is not None else [])]
    if version is not None:
        snapshot_versions.refuse_taken(target, version, stores.root(store), numbered)
    with progress.steps() as step:
        forced = force or version is not None
        found = asyncio.run(prepare_each(target, stores.root(store), progress=step, force=forced, export=export))
    made = found.ready
    if found.failed and version is not None:
        raise next(iter(found.failed.values()))
    if version is not None and len(made) > 1:
        what = f"{target} has several functions: {', '.join(one.name for one in made)}"
        raise Failure(what, f"name one: {target}:{made[0].python_name}", CALL_WAS_WRONG)
    if pushing is not None:
        for preparation in made:
            if preparation.snapshot is not None:
                with remote.failures():
                    remote.push(pushing, preparation.name, Path(preparation.snapshot))
    if version is not None:
        snapshot_versions.number(made[0], version, numbered)
    _tell(found, as_json=as_json)


def _tell(found: Prepared, *, as_json: bool) -> None:
    """Show what was made ready; raise Failure for what was not, or not as it was asked for."""
    listing.show(
        [snapshot_inspect.row(preparation) for preparation in found.ready],
        {
            "function": lambda row: row["function"],
            "state": lambda row: size(row["state_bytes"]),
            "setup": lambda row: duration(row["setup_s"]),
            "thaw": lambda row: duration(row["thaw_s"]) if row["snapshot"] else None,
            "compared": lambda row: "yes" if row["compared"] else "no",
            "export": lambda row: row["export"],
            "snapshot": lambda row: row["snapshot"],
        },
        as_json=as_json,
        none="",
    )
    if found.failed:
        raise Failure("; ".join(map(str, found.failed.values())), "correct it, then give the same command again")
    for preparation in found.ready:
        if preparation.snapshot is None:
            raise Failure(
                f"{preparation.name} has no snapshot, its instances run setup(): {preparation.reason}",
                "it can be served as it is; to have one, change what the reason names",
            )
        if preparation.export_reason is not None:
            raise Failure(
                f"{preparation.name} is not exported, its instances run torch: {preparation.export_reason}",
                "it can be served as it is; to have it exported, change what the reason names",
            )


@command.command()
@click.argument("name")
@stores.any_option
@listing.option
def verify(name: str, store: str | None, as_json: bool) -> None:
    """Read every file of the snapshot of the function NAME, or in a folder NAME, and compare it with its digest."""
    begun = monotonic()
    if store is not None and is_s3(store):
        with remote.failures():
            where, manifest = remote.verify(remote.open_store(store), name, stores.root(store))
    else:
        found, folder = stored.find(name, stores.root(store))
        where, manifest = str(folder), snapshot.verify(folder)
        if found is not None and manifest.digest != found.digest:
            what = f"{folder} holds another snapshot ({manifest.digest}) than was made ready ({found.digest})"
            raise Failure(what, f"faas snapshot create {found.description.target} --force")
    num_bytes = sum(record.num_bytes for record in manifest.all_files)
    if as_json:
        facts = {"snapshot": where, "digest": manifest.digest, "num_files": len(manifest.all_files)}
        listing.write_json(facts | {"size_bytes": num_bytes, "verify_s": monotonic() - begun})
        return
    files = "1 file" if len(manifest.all_files) == 1 else f"{len(manifest.all_files)} files"
    click.echo(f"{where}: {files}, {size(num_bytes)}: every digest is right")
