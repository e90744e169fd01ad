"""`faas bundle`: a function packed with all that it needs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from faas import bundle, prepare, settings
from faas.bundle.manifest import ARCHIVE_SUFFIX, Bundle
from faas.cli import environment, listing, progress
from faas.cli.run import one
from faas.preparation import Preparation


@click.command()
@click.argument("target")
@click.option(
    "-o", "--output", required=True, metavar="PLACE", help=f"The folder to make, or a file NAME{ARCHIVE_SUFFIX}."
)
@click.option(
    "--include", multiple=True, metavar="PATTERN", help="Files to travel too, relative to the target's folder."
)
@click.option("--snapshot", "with_snapshot", is_flag=True, help="Make it ready first, and take its frozen state along.")
@listing.option
def command(target: str, output: str, include: tuple[str, ...], with_snapshot: bool, as_json: bool) -> None:
    """Pack the function of TARGET with the local modules that it reaches, so that any machine can run it.

    It is loaded once in a clean interpreter. What cannot travel is named.
    """
    with contextlib.redirect_stdout(sys.stderr):  # what user code prints is no part of the answer
        one(environment.load(target), target)
    preparation = _made_ready(target) if with_snapshot else None
    place = Path(output)
    if place.suffix == ARCHIVE_SUFFIX:
        with tempfile.TemporaryDirectory(prefix="faas-bundle-") as scratch:
            made = _make(target, Path(scratch, "bundle"), include, preparation)
            bundle.pack(Path(scratch, "bundle"), place.absolute())
    else:
        made = _make(target, place, include, preparation)
    _tell(made, place, as_json)


def _make(target: str, folder: Path, include: tuple[str, ...], preparation: Preparation | None) -> Bundle:
    return bundle.make(
        target, folder, include=include, preparation=preparation, with_snapshot=preparation is not None, fresh=True
    )


def _made_ready(target: str) -> Preparation:
    with progress.steps() as step:
        (made,) = asyncio.run(prepare.prepare(target, settings.read().snapshots, progress=step))
    return made


def _tell(made: Bundle, place: Path, as_json: bool) -> None:
    listing.notes(made.notes)
    if as_json:
        known = {"place": str(place), "digest": made.digest, "num_bytes": made.num_bytes}
        listing.write_json({**msgspec.to_builtins(made), **known})
    else:
        files = "1 file" if len(made.files) == 1 else f"{len(made.files)} files"
        click.echo(f"{made.name} is in {place}: {files}, {listing.size(made.num_bytes)}, {made.digest[:12]}")
