"""`faas snapshot`: what is kept of functions that were set up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

import snapshot
from faas import names
from faas.cli import listing, progress, snapshot_import
from faas.cli import store as stores
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.listing import duration, size
from faas.preparation import Preparation, Preparations
from faas.prepare import prepare
from snapshot.manifest import MANIFEST_FILE
from snapshot.store import is_name


@click.group()
def command() -> None:
    """Create, inspect and verify snapshots: what setup() left, kept so that an instance need not run it."""


command.add_command(snapshot_import.command)


@command.command()
@click.argument("target")
@click.option("--force", is_flag=True, help="Make it again, also where nothing has changed.")
@click.option(
    "--export",
    type=click.Choice(["onnx", "aoti", "none"]),
    help="Keep torch modules in a form that starts sooner: onnx needs no torch, aoti is compiled. It stays so when the "
    "snapshot is made again.",
)
@stores.option
@listing.option
def create(target: str, force: bool, export: str | None, store: Path | None, as_json: bool) -> None:
    """Set up the functions of TARGET, freeze what that left, and check that it thaws to the same."""
    with progress.steps() as step:
        made = asyncio.run(prepare(target, stores.root(store), progress=step, force=force, export=export))
    listing.show(
        [_row(preparation) for preparation in made],
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
    for preparation in made:
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
@stores.option
@listing.option
def inspect(name: str, store: Path | None, as_json: bool) -> None:
    """Show what the snapshot of the function NAME, or the one in a folder NAME, holds and how it was made."""
    found, folder = _find(name, stores.root(store))
    row: dict[str, Any] = {} if found is None else _row(found)
    if folder is not None:
        row |= _contents(snapshot.read_manifest(folder))
    if as_json:
        listing.write_json(row)
        return
    for key, value in row.items():
        click.echo(f"{_label(key) + ':':12} {_shown(key, value)}")


@command.command()
@click.argument("name")
@stores.option
def verify(name: str, store: Path | None) -> None:
    """Read every file of the snapshot of the function NAME, or in a folder NAME, and compare it with its digest."""
    found, folder = _find(name, stores.root(store))
    if folder is None:
        assert found is not None
        raise Failure(f"{name} has no snapshot: {found.reason}", f"faas snapshot create {found.description.target}")
    manifest = snapshot.verify(folder)
    if found is not None and manifest.digest != found.digest:
        what = f"{folder} holds another snapshot ({manifest.digest}) than was made ready ({found.digest})"
        raise Failure(what, f"faas snapshot create {found.description.target} --force")
    num_bytes = sum(record.num_bytes for record in manifest.all_files)
    click.echo(f"{folder}: {len(manifest.all_files)} files, {size(num_bytes)}: every digest is right")


def _find(name: str, root: Path) -> tuple[Preparation | None, Path | None]:
    """Return what was made ready under a function's name, and the folder of its snapshot; either may be None."""
    if (Path(name) / MANIFEST_FILE).is_file():
        return None, Path(name)
    preparations = Preparations(root)
    found = preparations.read(names.label(name))
    if found is None and is_name(name) and (imported := _latest(name, root)) is not None:
        return None, imported
    if found is None:
        known = [preparation.name for preparation in preparations.all()]
        near = names.suggestion(name, known) or (f"; it has: {', '.join(known)}" if known else "")
        what = f"{root} has nothing of a function {name!r}{near}"
        raise Failure(what, "faas snapshot create TARGET makes it", CALL_WAS_WRONG)
    return found, None if found.snapshot is None else Path(found.snapshot)


def _latest(name: str, root: Path) -> Path | None:
    """Return the folder of the latest snapshot that the store has under a name, of an imported model for one."""
    store = snapshot.LocalStore(root)
    try:
        return store.folder(store.find(name))
    except snapshot.SnapshotNotFoundError:
        return None


def _row(made: Preparation) -> dict[str, Any]:
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


def _contents(manifest: snapshot.Manifest) -> dict[str, Any]:
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
    }


def _label(key: str) -> str:
    """Return a member's name without the unit that its value is shown with."""
    return key.removeprefix("num_").removesuffix("_s").removesuffix("_bytes").replace("_", " ")


def _shown(key: str, value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "-"
    if key.endswith("_bytes"):
        return size(value) or "-"
    if key.endswith("_s"):
        return duration(value) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(str(v) for v in value)
    return "yes" if value is True else "no" if value is False else str(value)
