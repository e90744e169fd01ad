"""`faas rollback`: back to the version that was promoted before, or to a revision that served before."""

from __future__ import annotations

import click

from faas import names
from faas.cli import listing, revisions, versions, where
from faas.cli.control import Control
from faas.cli.where import Where


@click.command()
@click.argument("name")
@where.options
@click.option("--to", metavar="REV", help="The revision; default: the one that served before the present one.")
@listing.option
def command(name: str, where: Where, to: str | None, as_json: bool) -> None:
    """Give all calls of the function NAME to what served before.

    That is the version that was promoted before, where one was (faas promote --version); else, or with --to, a
    revision. Given again it goes further back. faas traffic NAME --to latest=100 goes forward.
    """
    if where.is_cluster:
        from faas.cli.cluster import life  # the Kubernetes client is for this alone

        life.rollback(name, where, to, as_json=as_json)
        return
    found = Control.named().post(f"/functions/{names.label(name)}/rollback", {"to": to}, timeout_s=None)
    if as_json:
        listing.write_json(found)
    elif "versions" in found:
        versions.tell(found["versions"], as_json=False)
    else:
        revisions.tell_shares(found)
