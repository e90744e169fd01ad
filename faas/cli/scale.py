"""`faas scale`: how many instances a function has now."""

from __future__ import annotations

import click

from faas import names
from faas.cli.control import Control


@click.command()
@click.argument("name")
@click.argument("instances", type=click.IntRange(min=0))
def command(name: str, instances: int) -> None:
    """Bring the function NAME to a number of INSTANCES. 0 drains it at once; more are kept for a while, then load
    decides again."""
    path = f"/functions/{names.label(name)}/scale"
    now = Control().post(path, {"instances": instances}, timeout_s=None)
    click.echo(f"{now['name']}: {now['ready']} of {now['instances']} ready")
    if instances > now.get("most", instances):
        click.echo(f"{now['name']} has at most {now['most']}, as its max_instances says: not {instances}", err=True)
