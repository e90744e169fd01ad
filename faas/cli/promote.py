"""`faas promote`: all calls to one revision."""

from __future__ import annotations

import click

from faas import names
from faas.cli import listing, revisions
from faas.cli.control import Control


@click.command()
@click.argument("name")
@click.argument("revision", default="latest")
@listing.option
def command(name: str, revision: str, as_json: bool) -> None:
    """Give all calls of the function NAME to a REVISION, the latest unless told."""
    wanted = {"percents": {revision: 100}}
    found = Control().post(f"/functions/{names.label(name)}/traffic", wanted, timeout_s=None)
    if as_json:
        listing.write_json(found)
    else:
        revisions.tell_shares(found)
