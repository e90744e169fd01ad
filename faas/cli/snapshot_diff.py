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
    difference = diff(stored.find(before, root)[1], stored.find(after, root)[1])
    if as_json:
        listing.write_json(difference)
        return
    for line in _lines(difference):
        click.echo(line)


def _lines(difference: Difference) -> Iterator[str]:
    yield _line(
        "tensors",
        f"{difference.num_same} the same ({difference.num_moved} at another place), {len(difference.changed)} changed, "
        f"{len(difference.renamed)} renamed, {len(difference.added)} added, {len(difference.removed)} removed",
    )
    yield from (f"  ~ {one.before.name}  {_changed(one)}" for one in difference.changed)
    yield from (f"  > {one.before.name}  now {one.after.name}" for one in difference.renamed)
    yield from (f"  + {one.name}  {_look(one)}" for one in difference.added)
    yield from (f"  - {one.name}  {_look(one)}" for one in difference.removed)
    yield _line("size", f"{size(difference.before_bytes)}, then {size(difference.after_bytes)}")
    yield _line("shared", f"{size(difference.shared_bytes)} in files that both have, which a store holds once")
    yield _line("objects", "differ" if difference.skeleton_changed else "the same")
    if difference.files:
        yield _line("kept files", f"differ: {', '.join(difference.files)}")
    if difference.python is not None:
        yield _line("python", "{}, then {}".format(*difference.python))
    for name, (old, new) in difference.libraries.items():
        yield _line("library", f"{name} {old or 'not needed'}, then {new or 'not needed'}")


def _line(label: str, text: str) -> str:
    return f"{label + ':':12} {text}"


def _changed(one: Changed) -> str:
    if one.aspects == ("content",):
        return f"{_look(one.after)}: other content"
    return f"{_look(one.before)}, then {_look(one.after)}"


def _look(tensor: StoredTensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
