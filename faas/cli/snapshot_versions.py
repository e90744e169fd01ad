"""`faas snapshot versions` and `faas snapshot delete`: the numbered versions of a function's state in a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from faas import names
from faas.cli import listing, remote
from faas.cli import store as stores
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.listing import size
from faas.cli.versions import number as number_of
from faas.engine.versions import plan, source
from faas.preparation import Preparation, Preparations
from faas.targets import Target
from faas.versions import folder_of
from snapshot import LocalStore, Manifest, Store, read_manifest
from snapshot.errors import SnapshotExistsError
from snapshot.s3_address import is_s3


@click.command("versions")
@click.argument("name")
@stores.any_option
@listing.option
def listed(name: str, store: str | None, as_json: bool) -> None:
    """List the versions of the function NAME: their snapshots, and the labels that lead to them."""
    name = names.label(name)
    with remote.failures():
        rows = [_row(store, name, number, digest) for number, digest in sorted(_open(store).versions(name).items())]
    labels = _labels(store, name)
    for row in rows:
        row["labels"] = [label for label, led in sorted(labels.items()) if led == row["version"]]
    listing.show(
        rows,
        {
            "version": lambda row: row["version"],
            "labels": lambda row: ", ".join(row["labels"]),
            "digest": lambda row: row["digest"][:16],
            "created": lambda row: row["created_at"],
            "size": lambda row: size(row["size_bytes"]),
        },
        as_json=as_json,
        none=f"{name} has no versions; faas snapshot create TARGET --version 1 makes one",
    )


@click.command("delete")
@click.argument("name")
@click.option("--version", "version", required=True, metavar="N", help="The version.")
@stores.any_option
def delete(name: str, version: str, store: str | None) -> None:
    """Delete a version of the function NAME. Whoever holds it lets it go; its files go when the store is pruned."""
    name, number = names.label(name), number_of(version)
    if number is None:
        raise Failure("write the number of a version", f"faas snapshot versions {name} lists them", CALL_WAS_WRONG)
    leading = [label for label, led in sorted(_labels(store, name).items()) if led == number]
    if leading:
        what = f"the label {leading[0]} leads to version {number} of {name}"
        raise Failure(what, f"faas promote {name} --version N --label {leading[0]} leads it elsewhere", CALL_WAS_WRONG)
    try:
        with remote.failures():
            _open(store).unnumber(name, number)
    except Failure as error:
        raise Failure(error.message, f"faas snapshot versions {name} lists them", CALL_WAS_WRONG) from None
    click.echo(f"{name}: version {number} is deleted")


def refuse_taken(target: str, version: int, root: Path, numbered: Sequence[Store]) -> None:
    """Refuse a number that a function which was made ready in `root` has already, before its `setup()` runs for it.

    One that was not made ready under this very target is not known by it; `number` refuses then.

    Raises:
        Failure: there is such a version already.
    """
    text = Target.of(target).text
    for name in [made.name for made in Preparations(root).all() if made.description.target == text]:
        for store in numbered:
            with remote.failures():
                is_taken = version in store.versions(name)
            if is_taken:
                raise _taken(name, version, f"{name} has a version {version} already")


def _taken(name: str, version: int, what: str) -> Failure:
    then = f"give the next number, or first: faas snapshot delete {name} --version {version}"
    return Failure(what, then, CALL_WAS_WRONG)


def number(made: Preparation, version: int, numbered: Sequence[Store]) -> None:
    """Make what a function was made ready with a version of it.

    Raises:
        Failure: there is such a version already, or the state is not one that several versions can have.
    """
    if made.globals:
        bound = ", ".join(made.globals)
        what = f"setup() of {made.name} binds globals, of which a process has one for all versions: {bound}"
        raise Failure(what, "have it keep them as attributes of the object")
    if made.digest is None:
        raise Failure(f"{made.name} has no snapshot: {made.reason}", "change what the reason names")
    for store in numbered:
        try:
            with remote.failures():
                store.number(made.name, version, made.digest)
        except SnapshotExistsError as error:
            raise _taken(made.name, version, str(error)) from None


def _open(store: str | None) -> Store:
    return remote.open_if_s3(store) or LocalStore(stores.root(store))


def _labels(store: str | None, name: str) -> dict[str, int]:
    is_there = store is not None and is_s3(store)
    place = f"{str(store).rstrip('/')}/{name}" if is_there else str(folder_of(name, stores.root(store)))
    try:
        return plan.read(source.find(place).look().file).labels
    except source.SourceError:
        return {}


def _row(store: str | None, name: str, number: int, digest: str) -> dict[str, Any]:
    manifest = _manifest(store, name, digest)
    return {
        "version": number,
        "digest": manifest.digest,
        "created_at": manifest.created_at,
        "size_bytes": sum(record.num_bytes for record in manifest.all_files),
    }


def _manifest(store: str | None, name: str, digest: str) -> Manifest:
    in_s3 = remote.open_if_s3(store)
    if in_s3 is not None:
        return in_s3.locate(name, digest)[1]
    return read_manifest(Path(stores.root(store)) / name / digest)
