"""A revision on trial on a platform, watched until it is promoted or taken back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from deploy import rollback
from deploy.knative.metrics import counts
from deploy.rollback import Counts, Decision, Limits, Reading
from faas.cli import listing, progress
from faas.cli.control import Control
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure
from faas.clock import Clock, monotonic

if TYPE_CHECKING:
    from deploy.knative import rollout

_LOOK_EVERY_S = 5.0
_ALL = 100
_OF_PLATFORM = "platform"

Tell = Callable[[Decision], None]


@dataclass(frozen=True)
class Outcome:
    """How a trial ended, and how calls are shared now."""

    verdict: rollback.Verdict
    reason: str
    stable: str
    candidate: str
    traffic: dict[str, int]


def start(control: Control, name: str, percent: int) -> dict[str, Any]:
    """Give the latest revision of a function a share for a trial, the rest to the one that has most now.

    It has all calls where there is no other. Returns what is known of the function then.
    """
    function = control.get(f"/functions/{name}")
    latest = function["all_revisions"][0]["revision"]
    others = {revision: share for revision, share in function["traffic"].items() if revision != latest}
    percents = {latest: _ALL}
    if others:
        percents = {latest: percent, max(others, key=lambda revision: others[revision]): _ALL - percent}
    shared: dict[str, Any] = control.post(f"/functions/{name}/traffic", {"percents": percents}, timeout_s=None)
    return shared


def watch(control: Control, name: str, *, as_json: bool) -> int:
    """Watch a trial to its end. Returns the exit code."""
    return show(name, lambda tell: follow(control, name, tell), as_json=as_json)


def show(name: str, followed: Callable[[Tell], Outcome | rollout.Outcome], *, as_json: bool) -> int:
    """Show how a trial goes while it is `followed`, and how it ended.

    Returns the exit code: a revision that was taken back is a failure.
    """
    with progress.steps() as step:
        outcome = followed(lambda said: step(f"{name} on trial: {said.verdict}, {said.reason}"))
    if as_json:
        listing.write_json(asdict(outcome))
    elif outcome.verdict == "promote":
        click.echo(f"{outcome.candidate} is promoted: {outcome.reason}")
    else:
        click.echo(f"{outcome.candidate} is taken back, {outcome.stable} has all calls: {outcome.reason}")
    return WORK_FAILED if outcome.verdict == "roll back" else 0


def follow(
    control: Control,
    name: str,
    tell: Tell,
    *,
    limits: Limits | None = None,
    rest: Callable[[float], object] = time.sleep,
    clock: Clock = monotonic,
) -> Outcome:
    """Look at a trial every five seconds, and end it: all calls to the revision on trial, or to the stable one.

    Raises Failure where nothing is on trial.
    """
    limits = limits or Limits()
    candidate, stable = _on_trial(control.get(f"/functions/{name}"))
    trial = rollback.begin(clock(), *_readings(control, name, candidate, stable))
    decision = Decision("wait", "no look was taken")
    while decision.verdict == "wait":
        rest(_LOOK_EVERY_S)
        readings = _readings(control, name, candidate, stable)
        failed = _failure(control.get(f"/functions/{name}"), candidate)
        trial, decision = rollback.step(trial, clock(), *readings, limits=limits, failed=failed)
        tell(decision)
    winner = candidate if decision.verdict == "promote" else stable
    shared = control.post(f"/functions/{name}/traffic", {"percents": {winner: _ALL}}, timeout_s=None)
    return Outcome(decision.verdict, decision.reason, stable, candidate, shared["traffic"])


def _on_trial(function: dict[str, Any]) -> tuple[str, str]:
    """Return the newest revision that has a share, and the one that has the most of the rest."""
    shares: dict[str, int] = function["traffic"]
    numbers = {row["revision"]: row["number"] for row in function["all_revisions"]}
    if len(shares) < 2:
        what = f"{function['name']} has no revision on trial"
        raise Failure(what, "start one: faas deploy --local --canary 10 TARGET", CALL_WAS_WRONG)
    candidate = max(shares, key=lambda revision: numbers.get(revision, 0))
    return candidate, max(shares.keys() - {candidate}, key=lambda revision: shares[revision])


def _readings(control: Control, name: str, candidate: str, stable: str) -> tuple[Reading, Reading]:
    found = control.get(f"/functions/{name}/counts")
    return _reading(found.get(candidate)), _reading(found.get(stable))


def _reading(counted: dict[str, Any] | None) -> Reading:
    """Return what instances counted; and, as one more, the calls that the platform failed, for instances that died."""
    if counted is None:
        return {}
    failed = Counts(counted["failed"], counted["failed"])
    return {_OF_PLATFORM: failed} | {instance: counts(text) for instance, text in counted["instances"].items()}


def _failure(function: dict[str, Any], revision: str) -> str | None:
    """Return why a revision cannot run; None while it can."""
    row = next((row for row in function["all_revisions"] if row["revision"] == revision), None)
    if row is None:
        return "it was deleted"
    failure: str | None = row["failure"]
    return failure if failure and not row["ready"] else None
