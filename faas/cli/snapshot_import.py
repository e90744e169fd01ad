"""`faas snapshot import`: models of other formats, made snapshots."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import click

import snapshot
from faas import budget, names
from faas.cli import listing, progress, remote
from faas.cli import store as stores
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.listing import duration, size
from faas.clock import monotonic
from faas.preparation import Preparations
from snapshot.imports import DTYPES, Imported, import_model
from snapshot.imports.shard_index import is_index
from snapshot.staging import scratch_folder
from snapshot.store import MAX_NAME_LENGTH, check_name

_REPOSITORY: Final = re.compile(r"models--(?:.+--)?(?P<name>.+)")
"""A folder of the hub's cache, which holds a repository's snapshots."""
_REFUSED: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SUFFIXES: Final = (".safetensors", ".onnx", ".ort", ".gguf", ".pt", ".pth", ".bin", ".ckpt")


@click.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--name", help="What it is called in the store; default: the name of SOURCE.")
@click.option(
    "--dtype",
    type=click.Choice(list(DTYPES)),
    help="Convert floating-point tensors to this type; default: they keep theirs.",
)
@click.option("--key", help="The part of a torch file to take, as in checkpoint['model'].")
@stores.any_option
@listing.option
def command(
    source: Path, name: str | None, dtype: str | None, key: str | None, store: str | None, as_json: bool
) -> None:
    """Make a snapshot of the model SOURCE: a Hugging Face folder, *.safetensors, *.pt, *.gguf or *.onnx.

    No code of the model is run. A function opens it with faas.open_weights(NAME). With a store in S3 the snapshot is
    made in the local store and then pushed there.
    """
    with remote.failures():
        pushing = remote.open_if_s3(store)
    root = stores.root(store)
    called = _name(source, name)
    _check_free(called, root)
    begun = monotonic()
    root.mkdir(parents=True, exist_ok=True)
    local = snapshot.LocalStore(root)
    with scratch_folder(root) as scratch:
        imported = _imported(source, scratch / "snapshot", dtype=dtype, key=key)
        kept = local.folder(local.publish(called, scratch / "snapshot"))
    if pushing is not None:
        with remote.failures():
            remote.push(pushing, called, kept)
    budget.hold(local)
    _show(_row(called, source, imported, kept) | {"import_s": monotonic() - begun}, as_json=as_json)


def _imported(source: Path, folder: Path, *, dtype: str | None, key: str | None) -> Imported:
    """Import under a bar, and say of what goes wrong what is to be done."""
    try:
        with progress.of_bytes(f"importing {source.name or source}") as show:
            return import_model(source, folder, dtype=dtype, key=key, progress=show)
    except snapshot.ImportRefused as error:
        raise Failure(error.problem, error.remedy) from error
    except (snapshot.DamagedError, snapshot.UnsupportedDtypeError) as error:
        raise Failure(str(error), "download it again, or take another file of the same model") from error
    except (snapshot.HeaderTooLargeError, snapshot.NoSpaceError) as error:
        raise Failure(str(error), "correct it, then give the same command again") from error


def _name(source: Path, asked: str | None) -> str:
    """Return what the model is called: as asked, or as its repository in the hub's cache, its folder or its file."""
    if asked is not None:
        try:
            return check_name(asked)
        except snapshot.BadNameError as error:
            raise Failure(str(error), "name it otherwise: --name NAME", CALL_WAS_WRONG) from error
    path = source.absolute()
    if is_index(path.name):
        path = path.parent
    plain = next((path.name.removesuffix(suffix) for suffix in _SUFFIXES if path.name.endswith(suffix)), path.name)
    if path.is_dir():
        repositories = filter(None, map(_REPOSITORY.fullmatch, reversed(path.parts)))
        plain = next((repository["name"] for repository in repositories), path.name)
    name = _REFUSED.sub("-", plain).strip("-._")[:MAX_NAME_LENGTH]
    if not name:
        raise Failure(f"{source} gives the snapshot no name", "name it: --name NAME", CALL_WAS_WRONG)
    return name


def _check_free(name: str, root: Path) -> None:
    """Refuse a name that a function has: its snapshots and an imported model's would be one history."""
    if names.is_label(name) and Preparations(root).read(name) is not None:
        raise Failure(f"{name!r} is a function's name in {root}", "give the model another: --name NAME", CALL_WAS_WRONG)


def _row(name: str, source: Path, imported: Imported, kept: Path) -> dict[str, Any]:
    manifest = imported.manifest
    stored = [tensor for shard in manifest.shards for tensor in shard.tensors]
    return {
        "name": name,
        "source": str(source),
        "format": imported.format,
        "snapshot": str(kept),
        "digest": manifest.digest,
        "size_bytes": sum(record.num_bytes for record in manifest.all_files),
        "num_tensors": len(stored),
        "num_tied": len(manifest.views) - len(stored),
        "dtypes": sorted({tensor.dtype for tensor in stored}),
        "kept_files": [record.file for record in manifest.files],
        "notes": list(imported.notes),
    }


def _show(row: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        listing.write_json(row)
        return
    listing.show(
        [row],
        {
            "name": lambda row: row["name"],
            "format": lambda row: row["format"],
            "size": lambda row: size(row["size_bytes"]),
            "tensors": lambda row: row["num_tensors"],
            "types": lambda row: ", ".join(row["dtypes"]),
            "import": lambda row: duration(row["import_s"]),
            "snapshot": lambda row: row["snapshot"],
        },
        as_json=False,
        none="",
    )
    listing.notes(row["notes"])
