"""`faas snapshot inspect`: what a snapshot holds, what it shares with others, how it was made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from faas.cli import listing, remote, stored
from faas.cli import store as stores
from faas.cli.listing import duration, size
from faas.preparation import Preparation
from snapshot.diff import shared_bytes
from snapshot.errors import DamagedError, SnapshotNotFoundError
from snapshot.local_store import LocalStore
from snapshot.manifest import Manifest
from snapshot.manifest_reading import read_manifest
from snapshot.s3_address import is_s3

_LISTED = ("files", "tensors")


@click.command("inspect")
@click.argument("name")
@click.option("--tensors", "with_tensors", is_flag=True, help="List every file and every tensor too.")
@stores.any_option
@listing.option
def command(name: str, with_tensors: bool, store: str | None, as_json: bool) -> None:
    """Show what a snapshot holds and how it was made. Nothing of it is executed.

    NAME is a function or model, NAME@DIGEST one of its older snapshots, or a folder.
    """
    in_s3 = store is not None and is_s3(store)
    facts, manifest = _there(str(store), name) if in_s3 else _here(name, stores.root(store))
    if with_tensors and manifest is not None:
        facts["tensors"] = list(_tensors(manifest))
    if as_json:
        listing.write_json(facts)
        return
    for key, value in facts.items():
        if key not in _LISTED:
            click.echo(f"{_label(key) + ':':14} {_shown(key, value)}")
    if "tensors" in facts:
        _list(facts)


def _here(name: str, root: Path) -> tuple[dict[str, Any], Manifest | None]:
    found, folder = stored.look_for(name, root)
    facts: dict[str, Any] = {} if found is None else row(found)
    if folder is None:
        return facts, None
    manifest = read_manifest(folder)
    return facts | _contents(manifest) | _sharing(manifest, LocalStore(root)), manifest


def _there(address: str, name: str) -> tuple[dict[str, Any], Manifest | None]:
    with remote.failures():
        store = remote.open_store(address)
        found, manifest = remote.manifest_of(store, name)
    place = {"name": found.name, "address": f"{store.address}/{found.name}", "is_latest": found.is_latest}
    return place | _contents(manifest), manifest


def row(made: Preparation) -> dict[str, Any]:
    """Return what is told of a function that was made ready."""
    return {
        "function": made.name,
        "target": made.description.target,
        "revision": made.revision,
        "snapshot": made.snapshot,
        "digest": made.digest,
        "reason": made.reason,
        "compared": made.compared,
        "export": made.export,
        "export_reason": made.export_reason,
        "without": list(made.later),
        "imported_late": made.late,
        "stale": made.stale(),
        "state_bytes": made.state_bytes,
        "setup_s": made.setup_s,
        "thaw_s": made.thaw_s,
        "num_imports": len(made.imports),
    }


def _contents(manifest: Manifest) -> dict[str, Any]:
    tensors = [tensor for shard in manifest.shards for tensor in shard.tensors]
    return {
        "digest": manifest.digest,
        "created_at": manifest.created_at,
        "python": manifest.python,
        "libraries": manifest.libraries,
        "num_files": len(manifest.all_files),
        "size_bytes": sum(record.num_bytes for record in manifest.all_files),
        "state_bytes": manifest.tensor_bytes,
        "num_tensors": len(tensors),
        "dtypes": sorted({tensor.dtype for tensor in tensors}),
        "kept_files": [record.file for record in manifest.files],
        "files": [
            {"file": record.file, "size_bytes": record.num_bytes, "digest": record.digest}
            for record in manifest.all_files
        ],
    }


def _sharing(manifest: Manifest, store: LocalStore) -> dict[str, Any]:
    """Return how many bytes of a snapshot's files others in the store have too, in all and with each."""
    others = {name: other for name, other in _manifests(store) if other.digest != manifest.digest}
    shared = {name: shared_bytes(manifest, other) for name, other in others.items()}
    return {
        "shared_bytes": shared_bytes(manifest, *others.values()),
        "shared_with": {name: num_bytes for name, num_bytes in shared.items() if num_bytes},
    }


def _manifests(store: LocalStore) -> Iterator[tuple[str, Manifest]]:
    for name in store.names():
        with contextlib.suppress(DamagedError, SnapshotNotFoundError):  # another one's fault, or pruned meanwhile
            for one in store.history(name):
                yield f"{name}@{one.short_digest}", read_manifest(store.folder(one))


def _tensors(manifest: Manifest) -> Iterator[dict[str, Any]]:
    for shard in manifest.shards:
        for tensor in shard.tensors:
            yield {
                "name": tensor.name,
                "dtype": tensor.dtype,
                "shape": list(tensor.shape),
                "size_bytes": tensor.num_bytes,
                "file": shard.file,
                "offset_bytes": tensor.offset,
            }


def _list(facts: dict[str, Any]) -> None:
    click.echo()
    columns = {"file": lambda one: one["file"], "size": lambda one: size(one["size_bytes"])}
    listing.show(facts["files"], columns | {"digest": lambda one: one["digest"]}, as_json=False, none="")
    click.echo()
    listing.show(
        facts["tensors"],
        {
            "tensor": lambda one: one["name"],
            "dtype": lambda one: one["dtype"],
            "shape": lambda one: one["shape"],
            "size": lambda one: size(one["size_bytes"]),
            "file": lambda one: one["file"],
            "offset": lambda one: one["offset_bytes"],
        },
        as_json=False,
        none="there are no tensors",
    )


def _label(key: str) -> str:
    """Return a member's name without the unit that its value is shown with."""
    return key.removeprefix("num_").removesuffix("_s").removesuffix("_bytes").replace("_", " ")


def _shown(key: str, value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "-"
    if key == "shared_with":
        return ", ".join(f"{name} ({size(num_bytes)})" for name, num_bytes in value.items())
    if key.endswith("_bytes"):
        return size(value) or "-"
    if key.endswith("_s"):
        return duration(value) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(str(v) for v in value)
    return "yes" if value is True else "no" if value is False else str(value)
