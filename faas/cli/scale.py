"""`faas scale`: how many instances a function has now."""

from __future__ import annotations

import click

from faas import names
from faas.cli import listing, where
from faas.cli.control import Control
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure
from faas.cli.where import Where


@click.command()
@click.argument("name")
@click.argument("instances", type=click.IntRange(min=0), required=False)
@where.options
@click.option("--min", "least", type=click.IntRange(min=0), help="On a cluster: how many there are at least.")
@click.option("--max", "most", type=click.IntRange(min=0), help="On a cluster: at most; 0 for any number.")
@listing.option
def command(name: str, instances: int | None, where: Where, least: int | None, most: int | None, as_json: bool) -> None:
    """Bring the function NAME to a number of INSTANCES, and wait until they are ready. 0 drains it at once; more are
    kept for a while, then load decides again.

    On a cluster INSTANCES is how many there are at least, as --min says too, until the next deployment; load decides
    within --min and --max.
    """
    if instances is not None and least is not None:
        raise Failure(f"INSTANCES ({instances}) and --min {least}", "give one of them", CALL_WAS_WRONG)
    if where.is_cluster:
        from faas.cli.cluster import life  # the Kubernetes client is for this alone

        life.scale(name, where, instances if least is None else least, most, as_json=as_json)
        return
    if instances is None or most is not None:
        raise Failure("a platform on one box takes INSTANCES alone", f"faas scale {name} 2", CALL_WAS_WRONG)
    path = f"/functions/{names.label(name)}/scale"
    now = Control.named().post(path, {"instances": instances}, timeout_s=None)
    if as_json:
        listing.write_json(now)
        return
    click.echo(f"{now['name']}: {now['ready']} of {now['instances']} ready")
    if instances > now.get("most", instances):
        click.echo(f"{now['name']} has at most {now['most']}, as its max_instances says: not {instances}", err=True)
    if now.get("short") is not None:
        raise Failure(f"not all are ready: {now['short']}", f"faas logs {now['name']} says more", WORK_FAILED)
