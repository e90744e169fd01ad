"""Functions given to the platform that runs here, while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import msgspec

from faas import errors
from faas.cli import listing, progress
from faas.cli.control import Control, record_here
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure
from faas.platform.orders import Order, Outcome
from faas.slow_steps import Ongoing
from faas.targets import Target


@dataclass(frozen=True)
class Wishes:
    """What becomes of the calls: all to the new revision, none, or `canary` percent for a trial, which may be watched.

    `tag` leads to the new revision by itself.
    """

    traffic: bool
    tag: str | None
    canary: int | None
    watch: bool

    def __post_init__(self) -> None:
        if self.canary is not None and not self.traffic:
            raise Failure("--canary does not go with --no-traffic", "give one of them", CALL_WAS_WRONG)


def run(targets: tuple[str, ...], wishes: Wishes, *, as_json: bool) -> int:
    """Deploy to this machine's platform. Returns the exit code."""
    control = Control.of(record_here())
    deployed: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    takes_all = wishes.traffic and wishes.canary is None
    for target in dict.fromkeys(Target.of(target).text for target in targets):
        outcome = _deploy(control, Order(target, takes_all, wishes.tag))
        _refuse_equal_names(deployed, outcome.functions)
        deployed += outcome.functions
        failures |= outcome.failures
    if wishes.canary is not None:
        from faas.cli import trial  # what judges a trial is for this alone

        deployed = [trial.start(control, row["name"], wishes.canary) for row in deployed]
    listing.show(deployed, _COLUMNS, as_json=as_json, none="")
    for name, why in failures.items():
        click.echo(f"{click.style('error:', fg='red')} {name}: {why}", err=True)
    if failures:
        click.echo(f"{click.style('next:', fg='cyan')}  correct it, then give the same command again", err=True)
    code = WORK_FAILED if failures else 0
    if wishes.watch:
        on_trial = [row["name"] for row in deployed if len(row["traffic"]) > 1]
        code = max([code, *(trial.watch(control, name, as_json=as_json) for name in on_trial)])
    return code


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
                step(Ongoing(said["step"]) if said.get("ongoing") else said["step"])
            else:
                outcome = msgspec.convert(said, Outcome)
    if outcome.error in ("NotPrepared", "TargetError", "SettingError"):
        raise getattr(errors, outcome.error)(outcome.detail)
    if outcome.error is not None:
        raise Failure(outcome.detail, "faas list shows what is served", WORK_FAILED)
    return outcome


def _refuse_equal_names(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    """Say of a function that has taken the place of another that was to be deployed with it. Raises Failure."""
    known = {row["name"]: row["target"] for row in before}
    for row in after:
        other = known.get(row["name"], row["target"])
        if other != row["target"]:
            what = f"two functions are called {row['name']!r}: {other} and {row['target']}, which is the one served now"
            raise Failure(what, "give one of them another name=..., then deploy both again", CALL_WAS_WRONG)


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
