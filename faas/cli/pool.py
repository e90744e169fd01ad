"""`faas pool`: platforms on a cluster that serve many functions each."""

from __future__ import annotations

from typing import Any

import click

from faas.cli import listing, registries, where
from faas.cli.where import Where


@click.group()
def command() -> None:
    """Make, list and delete pools: pods on a cluster that each serve many functions, as faas up does.

    A function at zero wakes inside a pod that runs already. faas deploy --pool NAME puts a function into one.
    """


@command.command()
@click.argument("name")
@where.cluster_options
@click.option(
    "--min-instances", type=click.IntRange(0), default=1, show_default=True, help="Pods that there always are."
)
@click.option("--max-instances", type=click.IntRange(0), default=3, show_default=True, help="0 for no limit.")
@click.option(
    "--target-inputs",
    type=click.FloatRange(0.01),
    default=100.0,
    show_default=True,
    help="Requests that one pod is meant to carry at a time.",
)
@click.option("--cpu", type=click.FloatRange(0.001), default=2.0, show_default=True, help="Cores of a pod.")
@click.option("--memory", default="4Gi", show_default=True, help="Of a pod; functions hold four fifths of it.")
@click.option("--gpu", metavar="KIND|NUMBER", help="As in Resources(gpu=...): L4, A100:2, 1.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1), default=240.0, show_default=True, metavar="SECONDS")
@click.option("--store", metavar="S3://BUCKET/PREFIX", help="The store of bundles and snapshots; default: FAAS_STORE.")
@click.option("--image", metavar="IMAGE", help="The runtime image; default: FAAS_BASE_IMAGE.")
@click.option("--secret", "secrets", multiple=True, metavar="NAME", help="A secret; VARIABLE=NAME/KEY for one key.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of all pods.")
@click.option("--service-account", metavar="NAME", help="The service account of pods; default: none.")
@click.option("--dry-run", is_flag=True, help="Write the manifest and change nothing; no cluster is asked.")
@registries.options
@listing.option
def create(name: str, where: Where, as_json: bool, **given: Any) -> None:
    """Make the pool NAME, or change it: a Knative Service whose pods serve the functions that lie in the store.

    Its token is made with it, and kept in the secret NAME-token.
    """
    from faas.cli.cluster import pools  # the Kubernetes client is for clusters alone

    pools.create(name, where, given, as_json=as_json)


@command.command("list")
@where.cluster_options
@listing.option
def listed(where: Where, as_json: bool) -> None:
    """List the pools of the namespace."""
    from faas.cli.cluster import pools  # as above

    pools.show(where, as_json=as_json)


@command.command()
@click.argument("name")
@where.cluster_options
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@listing.option
def delete(name: str, where: Where, yes: bool, as_json: bool) -> None:
    """Delete the pool NAME and its token. Its functions stay in the store: a pool of that name has them again."""
    from faas.cli.cluster import pools  # as above

    pools.delete(name, where, yes=yes, as_json=as_json)
