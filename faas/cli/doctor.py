"""`faas doctor`: what is wrong with a cluster, or will be with a function on it."""

from __future__ import annotations

import click

from faas.cli import listing, registries, where
from faas.cli.where import Where


@click.command()
@click.argument("target", required=False)
@where.cluster_options
@click.option("--image", metavar="PREFIX", help="The repository of images; default: FAAS_IMAGE.")
@click.option("--base", metavar="IMAGE", help="The runtime image; default: FAAS_BASE_IMAGE.")
@click.option("--store", metavar="S3://BUCKET/PREFIX", help="The store of bundles and snapshots; default: FAAS_STORE.")
@click.option("--snapshot", metavar="HOW", help="How the state is to travel, as of `faas deploy`.")
@registries.options
@listing.option
def command(target: str | None, where: Where, as_json: bool, **given: object) -> int:
    """Look at the cluster, at where images and snapshots go, and with a TARGET at what its function needs there.

    Nothing is changed: what the cluster would say to the function is asked in a dry run. Status 1 where something is
    wrong.
    """
    from faas.cli.cluster import doctoring  # the Kubernetes client is for clusters alone

    return doctoring.run(target, where, given, as_json=as_json)
