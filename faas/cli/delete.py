"""`faas delete`: a function taken from the platform."""

from __future__ import annotations

import click

from faas import names
from faas.cli import listing
from faas.cli.control import Control


@click.command()
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@listing.option
def command(name: str, yes: bool, as_json: bool) -> None:
    """Take the function NAME and all its revisions from the platform. The calls that it has are answered first; its
    logs and the snapshots in the store stay."""
    control, path = Control(), f"/functions/{names.label(name)}"
    found = control.get(path)
    if not yes:
        click.confirm(f"delete {found['name']} with {found['revisions']} revisions?", abort=True, err=True)
    deleted = control.delete(path)
    if as_json:
        listing.write_json(deleted)
    else:
        click.echo(f"{deleted['deleted']} is deleted")
