"""A revision on trial, watched until it is promoted or taken back."""

from __future__ import annotations

from dataclasses import asdict

import click

from deploy.knative import Cluster
from deploy.rollback import Decision, Limits
from faas.cli import listing, progress
from faas.cli.failure import WORK_FAILED


def watch(cluster: Cluster, service: str, *, as_json: bool) -> int:
    """Watch a trial to its end. Returns the exit code: a revision that was taken back is a failure."""
    with progress.steps() as step:

        def tell(decision: Decision) -> None:
            step(f"{service} on trial: {decision.verdict}, {decision.reason}")

        outcome = cluster.watch_canary(service, limits=Limits(), on_decision=tell)
    if as_json:
        listing.write_json(asdict(outcome))
    elif outcome.verdict == "promote":
        click.echo(f"{outcome.candidate} is promoted: {outcome.reason}")
    else:
        click.echo(f"{outcome.candidate} is taken back, {outcome.stable} has all calls: {outcome.reason}")
    return WORK_FAILED if outcome.verdict == "roll back" else 0
