"""The options of commands that use a registry, and the progress that they show."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from faas import settings
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure
from faas.cli.listing import size

if TYPE_CHECKING:
    from deploy.image import Connection, Progress, Transfer

_SAID_FROM_BYTES = 32 << 20
"""Blobs of at least this size show their progress, in quarters."""


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--insecure` and `--ca-file`."""
    command = click.option(
        "--ca-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Certificates (PEM) of authorities to trust besides the usual ones.",
    )(command)
    return click.option(
        "--insecure",
        metavar="HOST",
        multiple=True,
        help="A registry (host:port) that speaks plain HTTP. Those on this machine do anyway.",
    )(command)


def platform_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--platform`."""
    return click.option(
        "--platform", default="linux/amd64", show_default=True, help="Of an image for several, which one."
    )(command)


def connection(insecure: tuple[str, ...], ca_file: Path | None) -> Connection:
    """How to reach registries, as the options say."""
    from deploy.image import Connection  # httpx, which most commands do without

    return Connection(plain_http=frozenset(insecure), ca_file=ca_file)


def cache() -> Path:
    """Where layers and locks are kept."""
    return settings.read().home / "images"


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Say of what goes wrong with an image what is to be done."""
    from deploy.image.errors import BadReference, ImageError

    try:
        yield
    except ImageError as error:
        code = CALL_WAS_WRONG if isinstance(error, BadReference) else WORK_FAILED
        raise Failure(error.problem, error.remedy, code) from error


def transfers(step: Callable[[str], None]) -> Progress:
    """Say once of each blob what becomes of it, and of large ones how far they have come."""
    quarters: dict[str, int] = {}

    def tell(transfer: Transfer) -> None:
        if transfer.way == "present":
            return
        total, done = transfer.size_bytes, transfer.done_bytes
        quarter = 4 * done // total if total >= _SAID_FROM_BYTES else 0
        if quarters.get(transfer.digest, -1) < quarter < 4:
            quarters[transfer.digest] = quarter
            verb = {"mounted": "mounted", "copied": "copying", "sent": "sending"}[transfer.way]
            so_far = f", {size(done)} done" if quarter else ""
            step(f"{verb} {transfer.digest[:19]} ({size(total)}{so_far})")

    return tell
