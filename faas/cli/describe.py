"""`faas describe`: all that the platform knows of one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from faas import names
from faas.cli import listing, ps, revisions, where
from faas.cli.control import Control
from faas.cli.listing import duration, size
from faas.cli.where import Where


@click.command()
@click.argument("name")
@where.options
@click.option("--cold-starts", is_flag=True, help="Show what the starts of its instances cost, phase by phase.")
@listing.option
def command(name: str, where: Where, cold_starts: bool, as_json: bool) -> None:
    """Show the function NAME: where it is, its limits, its revisions and their shares of the calls, its instances."""
    if where.is_cluster:
        from faas.cli.cluster import services  # the Kubernetes client is for this alone

        services.describe(name, where, cold_starts=cold_starts, as_json=as_json)
        return
    found = Control.named().get(f"/functions/{names.label(name)}")
    if cold_starts:
        _show_starts(found["all_instances"], as_json=as_json)
        return
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
            "calls at once": f"{limits['max_inputs']} in an instance, {_wanted(limits)}",
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


def _wanted(limits: Mapping[str, Any]) -> str:
    """Return what instances are to have, and are started and ended for."""
    rate = limits.get("target_rps")
    return f"{limits['target_inputs']} wanted" if rate is None else f"{rate:g} a second wanted"


def _show_starts(instances: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    phases = dict.fromkeys(phase for instance in instances for phase in instance["start_ms"])
    columns = {title: ps.COLUMNS[title] for title in ("instance", "revision", "started by", "start")}
    columns |= {phase: _phase(phase) for phase in phases}
    listing.show(instances, columns, as_json=as_json, none="no instances: call it, and look again while it is warm")


def _phase(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda row: duration(row["start_ms"][name] / 1e3) if name in row["start_ms"] else None
