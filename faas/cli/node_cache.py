"""`faas node-cache`: pinned snapshots on the nodes of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path

import click

from faas.cli import pairs
from faas.cli.failure import CALL_WAS_WRONG, Failure


@click.group()
def command() -> None:
    """Keep pinned snapshots on the nodes of a cluster; faas snapshot push --prefetch pins them."""


@command.command()
@click.option("--store", metavar="S3://BUCKET/PREFIX", help="The store of snapshots and pins; default: FAAS_STORE.")
@click.option("--image", metavar="IMAGE", help="A runtime image with the extras s3 and knative; FAAS_BASE_IMAGE.")
@click.option("--namespace", default="faas-system", show_default=True, help="Where it runs.")
@click.option("--budget", default="100Gi", show_default=True, help="What the folder of a node may hold.")
@click.option("--secret", "secrets", multiple=True, metavar="NAME", help="A secret; VARIABLE=NAME/KEY for one key.")
@click.option("--node-selector", multiple=True, metavar="LABEL=VALUE", help="The nodes that it runs on; default: all.")
def manifest(
    store: str | None,
    image: str | None,
    namespace: str,
    budget: str,
    secrets: tuple[str, ...],
    node_selector: tuple[str, ...],
) -> None:
    """Write the objects for an operator to apply: faas node-cache manifest | kubectl apply -f -"""
    from deploy.manifest import to_yaml
    from deploy.node_cache import NodeCacheSpec, documents
    from faas import settings
    from faas.cli.cluster.failures import failures
    from faas.deployment.described import secret

    environment = settings.read()
    place, base = store or environment.store, image or environment.base_image
    if place is None or base is None:
        raise Failure("there is no store or no image", "set FAAS_STORE and FAAS_BASE_IMAGE", CALL_WAS_WRONG)
    with failures():
        spec = NodeCacheSpec(
            image=base,
            store=place,
            namespace=namespace,
            budget=budget,
            env=environment.s3_places,
            secrets=tuple(secret(text) for text in secrets),
            node_selector=pairs.read("--node-selector", node_selector),
        )
        click.echo("---\n".join(to_yaml(document) for document in documents(spec)), nl=False)


@command.command()
@click.argument("store", metavar="S3://BUCKET/PREFIX")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True, help="Of the node.")
@click.option("--budget", metavar="SIZE", required=True, help="What the folder may hold.")
@click.option("--node", metavar="NAME", help="The node to be labelled with what it holds; default: none.")
@click.option("--host", default="0.0.0.0", show_default=True, help="Where metrics are served.")
@click.option("--port", type=click.IntRange(0, 65535), default=9404, show_default=True)
@click.option("--poll", "poll_s", type=click.FloatRange(min=0.01), default=10.0, show_default=True, metavar="SECONDS")
def run(store: str, folder: Path, budget: str, node: str | None, host: str, port: int, poll_s: float) -> None:
    """Keep what is pinned in a store in a folder, until told to stop: what the pod on a node runs."""
    from faas.cli import remote
    from faas.node_cache import rounds, running  # boto3 and uvicorn are for this alone
    from faas.quantities import parse_bytes
    from snapshot import LocalStore

    with remote.failures():
        remote.open_store(store)  # says what is not installed
        made = rounds.Rounds(
            store, LocalStore(folder.absolute()), parse_bytes(budget, "--budget"), tell=_labeller(node), say=_say
        )
    running.run(made, host=host, port=port, poll_s=poll_s)


def _labeller(node: str | None) -> Callable[[Collection[str]], None]:
    if node is None:
        return lambda held: None
    from deploy import node_cache
    from deploy.errors import ClusterError
    from deploy.knative import nodes
    from deploy.knative.connection import connect
    from deploy.knative.rest import Rest

    rest = Rest(connect(environ=os.environ))

    def tell(held: Collection[str]) -> None:
        try:
            nodes.label(rest, node, node_cache.LABEL_PREFIX, {node_cache.label(one): node_cache.READY for one in held})
        except ClusterError as error:
            raise OSError(str(error)) from error

    return tell


def _say(text: str) -> None:
    click.echo(text, err=True)
