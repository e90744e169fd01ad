"""`faas describe`: all that the platform knows of one function."""

from __future__ import annotations

import click

from faas import names
from faas.cli import listing, ps, revisions
from faas.cli.control import Control
from faas.cli.listing import duration, size


@click.command()
@click.argument("name")
@listing.option
def command(name: str, as_json: bool) -> None:
    """Show the function NAME: where it is, its limits, its revisions and their shares of the calls, its instances."""
    found = Control().get(f"/functions/{names.label(name)}")
    if as_json:
        listing.write_json(found)
        return
    limits = found["limits"] or {}
    facts = {
        "function": found["name"],
        "url": found["url"],
        "target": found["target"],
        "traffic": revisions.shares(found),
        "tags": ", ".join(f"{tag} -> {revision}" for tag, revision in found["tags"].items()),
        "requests": f"{found['requests']}, {found['failed']} failed, {found['held']} held",
        "failure": found["failure"],
        "setup()": found["reason"],
    }
    if limits:
        facts |= {
            "instances": f"{limits['min_instances']} to {limits['max_instances']}",
            "calls at once": f"{limits['max_inputs']} in an instance, {limits['target_inputs']} wanted",
            "time-out": f"{duration(limits['timeout_s'])}, {duration(limits['startup_timeout_s'])} to start",
            "idle": duration(limits["scaledown_window_s"]),
            "cpu, memory": f"{limits['cpu']:g}, {size(limits['memory_bytes'])}",
        }
    for title, value in facts.items():
        if value:
            click.echo(f"{title:<15}{value}")
    click.echo()
    revisions.show(found, as_json=False)
    if found["all_instances"]:
        click.echo()
        listing.show(found["all_instances"], ps.COLUMNS, as_json=False, none="")
