"""`faas deploy`: functions given to a platform while it runs."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from faas import errors
from faas.cli import listing, progress
from faas.cli.control import Control, record_here
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure
from faas.platform.orders import Order, Outcome
from faas.targets import Target


@click.command()
@click.argument("targets", nargs=-1, required=True)
@click.option("--local", is_flag=True, help="Deploy to the platform that runs here.")
@click.option("--traffic/--no-traffic", default=True, help="Whether the new revision takes all calls once it is ready.")
@click.option("--tag", help="Reach the new revision as /f/NAME@TAG/, too.")
@listing.option
def command(targets: tuple[str, ...], local: bool, traffic: bool, tag: str | None, as_json: bool) -> int:
    """Deploy the functions of all TARGETS.

    A function that has changed gets a new revision; calls go on with the one before until the new one is ready, and no
    call fails by it. What has not changed stays as it is.
    """
    if not local:
        raise Failure(
            "only the platform that runs here can be deployed to", "faas deploy --local TARGET", CALL_WAS_WRONG
        )
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
