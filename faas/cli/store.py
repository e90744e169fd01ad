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
        help="The folder of snapshots; FAAS_HOME/snapshots unless told.",
    )(command)


def root(store: Path | None) -> Path:
    """Return the folder of snapshots that a command was told of, or the one that all share."""
    return (store or settings.read().snapshots).absolute()
