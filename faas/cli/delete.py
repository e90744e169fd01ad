"""`faas delete`: a function taken from the platform, or from the cluster."""

from __future__ import annotations

import click

from faas import names
from faas.cli import listing, where
from faas.cli.control import Control
from faas.cli.where import Where


@click.command()
@click.argument("name")
@where.options
@click.option(
    "--pool", metavar="NAME|URL", help="From this pool of the cluster, or the one at a URL (with FAAS_TOKEN)."
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@listing.option
def command(name: str, where: Where, pool: str | None, yes: bool, as_json: bool) -> None:
    """Take the function NAME and all its revisions from the platform, or from the cluster. The calls that it has are
    answered first; its logs here, images and the snapshots in the store stay."""
    if pool is not None:
        from faas.cli.cluster import pools  # the Kubernetes client is for clusters alone

        pools.take_out(names.label(name), pool, where, yes=yes, as_json=as_json)
        return
    if where.is_cluster:
        from faas.cli.cluster import life  # the Kubernetes client is for this alone

        life.delete(name, where, yes=yes, as_json=as_json)
        return
    control, path = Control.named(), f"/functions/{names.label(name)}"
    found = control.get(path)
    if not yes:
        click.confirm(f"delete {found['name']} with {found['revisions']} revisions?", abort=True, err=True)
    deleted = control.delete(path)
    if as_json:
        listing.write_json(deleted)
    else:
        click.echo(f"{deleted['deleted']} is deleted")
