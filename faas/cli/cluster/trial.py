"""A revision on trial on a cluster, watched until it is promoted or taken back."""

from __future__ import annotations

from deploy.knative import Cluster
from deploy.rollback import Limits
from faas.cli import trial


def watch(cluster: Cluster, service: str, *, as_json: bool) -> int:
    """Watch a trial to its end. Returns the exit code."""
    return trial.show(
        service, lambda tell: cluster.watch_canary(service, limits=Limits(), on_decision=tell), as_json=as_json
    )
