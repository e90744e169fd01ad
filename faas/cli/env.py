"""`faas env`: the environments of functions whose requirements the platform's own interpreter does not meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from faas import environments, settings
from faas.cli import listing
from faas.environments import Environment


@click.group()
def command() -> None:
    """List environments, and remove those that nothing needs."""


@command.command("list")
@listing.option
def list_(as_json: bool) -> None:
    """List the environments of this FAAS_HOME."""
    _show([_row(environment) for environment in environments.all_in(settings.read().environments)], as_json=as_json)


@command.command()
@listing.option
def prune(as_json: bool) -> None:
    """Remove the environments that no function made ready here, no deployed revision and no process uses."""
    found = [(_row(environment), environment) for environment in environments.all_in(settings.read().environments)]
    _show([row for row, environment in found if not row["used"] and environment.remove()], as_json=as_json)


def _row(environment: Environment) -> dict[str, Any]:
    found = settings.read()
    records = [*found.snapshots.glob("*.json"), *(found.home / "platform").glob("*.json")]
    recipe = environment.recipe()
    return {
        "digest": environment.digest,
        "requirements": list(recipe.requirements) if recipe is not None else [],
        "whole": recipe is not None,
        "used": environments.is_used(environment, records),
        "python": str(environment.python),
    }


def _show(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    columns = {
        "environment": lambda row: row["digest"],
        "used": lambda row: "yes" if row["used"] else "no",
        "requirements": lambda row: ", ".join(row["requirements"]) if row["whole"] else "(not finished)",
    }
    listing.show(rows, columns, as_json=as_json, none="there are none")
