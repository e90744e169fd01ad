"""Where snapshots are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from faas import settings


def option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--store`."""
    return click.option(
        "--store",
        type=click.Path(file_okay=False, path_type=Path),
        help="The folder of snapshots; default: FAAS_HOME/snapshots.",
    )(command)


def any_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--store`, which may be in S3 too."""
    return click.option(
        "--store",
        metavar="FOLDER|S3://BUCKET/PREFIX",
        help="The folder of snapshots, or a place in S3; default: FAAS_HOME/snapshots.",
    )(command)


def root(store: Path | str | None) -> Path:
    """Return the folder of snapshots that a command was given, or the default one."""
    from snapshot.s3_address import is_s3  # help is to be quick

    if store is None or is_s3(str(store)):
        return settings.read().snapshots
    return Path(store).absolute()
