"""Functions given to the platform that runs here, while it runs."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from faas import errors
from faas.cli import listing, progress
from faas.cli.control import Control, record_here
from faas.cli.failure import WORK_FAILED, Failure
from faas.platform.orders import Order, Outcome
from faas.targets import Target


def run(targets: tuple[str, ...], *, traffic: bool, tag: str | None, as_json: bool) -> int:
    """Deploy to this machine's platform. Returns the exit code."""
    control = Control(record_here())
    deployed: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    for target in targets:
        outcome = _deploy(control, Order(Target.of(target).text, traffic, tag))
        deployed += outcome.functions
        failures |= outcome.failures
    listing.show(deployed, _COLUMNS, as_json=as_json, none="")
    for name, why in failures.items():
        click.echo(f"{click.style('error:', fg='red')} {name}: {why}", err=True)
    return WORK_FAILED if failures else 0


def _deploy(control: Control, order: Order) -> Outcome:
    """Have the platform do it, and show what it does.

    Raises:
        NotPrepared: the target's own code failed.
        TargetError: there is no such target.
        Failure: it could not be done.
    """
    outcome = Outcome(error="PlatformError", detail="the platform ended before the deployment did")
    with progress.steps() as step:
        for line in control.lines("/deploy", msgspec.to_builtins(order)):
            said = msgspec.json.decode(line)
            if "step" in said:
                step(said["step"])
            else:
                outcome = msgspec.convert(said, Outcome)
    if outcome.error in ("NotPrepared", "TargetError", "SettingError"):
        raise getattr(errors, outcome.error)(outcome.detail)
    if outcome.error is not None:
        raise Failure(outcome.detail, "faas list shows what is served", WORK_FAILED)
    return outcome


def _revision(row: Any) -> str:
    latest = row["all_revisions"][0]
    return f"{latest['revision']} ({latest['number']})"


_COLUMNS: listing.Columns = {
    "function": lambda row: row["name"],
    "revision": _revision,
    "traffic": lambda row: f"{row['all_revisions'][0]['percent']}%",
    "tags": lambda row: ", ".join(row["all_revisions"][0]["tags"]),
    "url": lambda row: row["url"],
}
