"""`faas snapshot diff`: what two snapshots have in common and what not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from faas.cli import listing, stored
from faas.cli import store as stores
from faas.cli.listing import size
from snapshot.diff import Changed, Difference, diff
from snapshot.manifest import StoredTensor


@click.command("diff")
@click.argument("before")
@click.argument("after")
@stores.option
@listing.option
def command(before: str, after: str, store: Path | None, as_json: bool) -> None:
    """Show what differs from the snapshot BEFORE to AFTER: tensors by name, objects, versions; and what is shared.

    Each is a folder, the NAME of a function or model (its latest snapshot), or NAME@DIGEST.
    """
    root = stores.root(store)
    told = diff(stored.find(before, root)[1], stored.find(after, root)[1])
    if as_json:
        listing.write_json(told)
        return
    for line in _lines(told):
        click.echo(line)


def _lines(told: Difference) -> Iterator[str]:
    yield _line(
        "tensors",
        f"{told.num_same} the same ({told.num_moved} at another place), {len(told.changed)} changed, "
        f"{len(told.renamed)} renamed, {len(told.added)} added, {len(told.removed)} removed",
    )
    yield from (f"  ~ {one.before.name}  {_changed(one)}" for one in told.changed)
    yield from (f"  > {one.before.name}  now {one.after.name}" for one in told.renamed)
    yield from (f"  + {one.name}  {_look(one)}" for one in told.added)
    yield from (f"  - {one.name}  {_look(one)}" for one in told.removed)
    yield _line("size", f"{size(told.before_bytes)}, then {size(told.after_bytes)}")
    yield _line("shared", f"{size(told.shared_bytes)} in files that both have, which a store holds once")
    yield _line("objects", "differ" if told.skeleton_changed else "the same")
    if told.files:
        yield _line("kept files", f"differ: {', '.join(told.files)}")
    if told.python is not None:
        yield _line("python", "{}, then {}".format(*told.python))
    for name, (old, new) in told.libraries.items():
        yield _line("library", f"{name} {old or 'not needed'}, then {new or 'not needed'}")


def _line(label: str, text: str) -> str:
    return f"{label + ':':12} {text}"


def _changed(one: Changed) -> str:
    if one.aspects == ("content",):
        return f"{_look(one.after)}: other content"
    return f"{_look(one.before)}, then {_look(one.after)}"


def _look(tensor: StoredTensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
