"""`faas deploy`: functions given to a cluster, or to a platform while it runs."""

from __future__ import annotations

from typing import Any

import click

from faas.cli import listing, registries, where
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.where import Where

_OF_CLUSTER = "context", "namespace", "cluster"


@click.command()
@click.argument("targets", nargs=-1, required=True)
@where.options
@click.option(
    "--pool", metavar="NAME|URL", help="Into this pool of the cluster, or the one at a URL (with FAAS_TOKEN)."
)
@click.option("--traffic/--no-traffic", default=True, help="Whether the new revision takes all calls once it is ready.")
@click.option("--tag", help="Reach the new revision by itself, too: as /f/NAME@TAG/, or at a host of its own.")
@click.option(
    "--canary",
    type=click.IntRange(1, 99),
    metavar="PERCENT",
    help="Give the new revision this share for a trial, until faas promote or faas rollback.",
)
@click.option("--watch", is_flag=True, help="With --canary: promote it when it does well, take it back when not.")
@click.option("--wait/--no-wait", default=True, help="Wait until it is ready.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=1), metavar="SECONDS", help="How long to wait.")
@click.option("--dry-run", is_flag=True, help="Write the manifest and change nothing; no cluster is asked.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), help="The format of --dry-run; default: yaml.")
@click.option("--image", metavar="PREFIX", help="The repository of images, as registry/team; default: FAAS_IMAGE.")
@click.option("--base", metavar="IMAGE", help="The runtime image; default: FAAS_BASE_IMAGE.")
@click.option("--store", metavar="S3://BUCKET/PREFIX", help="The store of bundles and snapshots; default: FAAS_STORE.")
@click.option("--code", type=click.Choice(["image", "store"]), help="Where code goes; an image where one can.")
@click.option(
    "--snapshot", metavar="HOW", help="How the state travels: image, s3, node-cache, pvc:NAME, oci:IMAGE, none."
)
@click.option("--secret", "secrets", multiple=True, metavar="NAME", help="A secret; VARIABLE=NAME/KEY for one key.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of all instances.")
@click.option("--service-account", metavar="NAME", help="The service account of instances; default: none.")
@registries.options
@listing.option
def command(
    targets: tuple[str, ...],
    where: Where,
    pool: str | None,
    traffic: bool,
    tag: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Deploy the functions of all TARGETS to the cluster, with --pool into a pool there, or with --local to the
    platform that runs here.

    A function that has changed gets a new revision; calls go on with the one before until the new one is ready, and no
    call fails by it. What has not changed stays as it is.
    """
    if pool is not None:
        _refuse_beside("pool", {"targets", "pool", "as_json", *_OF_CLUSTER}, "which is not for pools")
        from faas.cli.cluster import pools  # only one of the three is needed

        pools.deploy(targets, pool, where, as_json=as_json)
        return 0
    if given["watch"] and given["canary"] is None:
        raise Failure("--watch is for --canary", "give both, as in --canary 10 --watch", CALL_WAS_WRONG)
    if where.local:
        _refuse_beside(
            "local",
            {"targets", "local", "traffic", "tag", "canary", "watch", "as_json", *_OF_CLUSTER},
            "which is for clusters",
        )
        from faas.cli import deploy_local  # only one of the two is needed

        wishes = deploy_local.Wishes(traffic=traffic, tag=tag, canary=given["canary"], watch=given["watch"])
        return deploy_local.run(targets, wishes, as_json=as_json)
    from faas.cli.cluster import deploying  # the Kubernetes client is for this alone

    return deploying.run(targets, where, deploying.Wishes(traffic=traffic, tag=tag, **given), as_json=as_json)


def _refuse_beside(option: str, usual: set[str], why: str) -> None:
    """Refuse what has no use beside an option, rather than leave it unsaid."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name not in usual and source is not None and source.name == "COMMANDLINE":
            raise Failure(f"--{option} and {parameter.opts[0]}, {why}", "leave one out", CALL_WAS_WRONG)
