"""A cluster as the commands see it: one object, a method for each thing that is done to a service."""

import os
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Literal

from deploy.doctor import Facts, Reach
from deploy.errors import InvalidSpec
from deploy.knative import apply as applying
from deploy.knative import cold_starts, facts, logs, rollout, routing, secrets, services, waiting
from deploy.knative.cold_starts import ColdStart
from deploy.knative.connection import connect
from deploy.knative.logs import LogLine
from deploy.knative.resources import Document
from deploy.knative.rest import Rest
from deploy.knative.secrets import Secret
from deploy.knative.services import Detail, Service
from deploy.rollback import Limits
from deploy.traffic import Plan

_READY_S = 600.0
_DELETED_S = 180.0


class Cluster:
    """One namespace of one cluster. A context: at its end connections are closed. Methods raise `ClusterError`s.

    A service goes by its label, the name that `ServiceSpec.label` gives.
    """

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self.host = rest.connection.host
        self.namespace = rest.connection.namespace
        self.context = rest.connection.context

    @classmethod
    def connect(
        cls, context: str | None = None, namespace: str | None = None, *, environ: Mapping[str, str] = os.environ
    ) -> "Cluster":
        """The cluster of a kubeconfig's context, or the one this runs in. Nothing is sent yet."""
        return cls(Rest(connect(context, namespace, environ=environ)))

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections."""
        self._rest.close()

    def apply(self, document: Document, *, dry_run: bool = False, take_over: bool = False) -> applying.Applied:
        """Create or change the service of `document`, or find it unchanged; it must be of this namespace."""
        wanted = document["metadata"]["namespace"]
        if wanted != self.namespace:
            remedy = f"describe the service for {self.namespace}, or connect with namespace={wanted!r}"
            raise InvalidSpec("namespace", wanted, f"is not the cluster's, which is {self.namespace}", remedy)
        return applying.apply(self._rest, document, dry_run=dry_run, take_over=take_over)

    def wait_ready(
        self,
        name: str,
        *,
        timeout_s: float = _READY_S,
        generation: int = 0,
        on_progress: waiting.OnProgress = lambda _: None,
    ) -> waiting.Ready:
        """Wait until the service is ready; give the `generation` of what was applied, to wait for that one."""
        return waiting.wait_ready(
            self._rest, self.namespace, name, timeout_s=timeout_s, generation=generation, on_progress=on_progress
        )

    def services(self, *, all_namespaces: bool = False) -> list[Service]:
        """The services that faas made."""
        return services.services(self._rest, None if all_namespaces else self.namespace)

    def describe(self, name: str) -> Detail:
        """All that is known of one service."""
        return services.describe(self._rest, self.namespace, name)

    def cold_starts(self, name: str) -> list[ColdStart]:
        """What the starts of the instances cost that there are now, the newest first."""
        return cold_starts.cold_starts(self._rest, self.namespace, name)

    def logs(self, name: str, *, tail: int | None = 100, since_s: int | None = None) -> list[LogLine]:
        """What the instances there are have written, by time."""
        return logs.logs(self._rest, self.namespace, name, tail=tail, since_s=since_s)

    def follow_logs(
        self, name: str, *, tail: int | None = 10, timeout_s: float | None = None
    ) -> Generator[LogLine, None, None]:
        """Lines of all instances as they are written, of those that start later too; close it to end it."""
        if timeout_s is None:
            return logs.follow(self._rest, self.namespace, name, tail=tail)
        return logs.follow(self._rest, self.namespace, name, tail=tail, timeout_s=timeout_s)

    def set_traffic(self, name: str, plan: Plan) -> Plan:
        """Send requests as `plan` says."""
        return routing.set_traffic(self._rest, self.namespace, name, lambda _present, _live: plan)

    def pin(self, name: str) -> str | None:
        """Hold traffic to the revisions that have it, before a change; return the stable one."""
        return rollout.pin(self._rest, self.namespace, name)

    def start_canary(self, name: str, *, percent: int, stable: str | None = None) -> Plan:
        """Put the latest ready revision on trial with `percent` of the requests."""
        return rollout.start(self._rest, self.namespace, name, percent=percent, stable=stable)

    def watch_canary(
        self,
        name: str,
        *,
        limits: Limits,
        on_decision: rollout.OnDecision = lambda _: None,
        read: rollout.Read | None = None,
        stop: threading.Event | None = None,
    ) -> rollout.Outcome:
        """Watch the trial until it is promoted or taken back."""
        return rollout.watch(
            self._rest, self.namespace, name, limits=limits, on_decision=on_decision, read=read, stop=stop
        )

    def promote(self, name: str) -> Plan:
        """Send everything to the latest revision, now and in future."""
        return rollout.promote(self._rest, self.namespace, name)

    def rollback(self, name: str, to: str | None = None) -> tuple[str, Plan]:
        """Send everything to `to`, or to what came before; return that revision and the traffic."""
        return rollout.back(self._rest, self.namespace, name, to)

    def scale(self, name: str, *, min_instances: int | None = None, max_instances: int | None = None) -> int:
        """Set how many instances there may be; return the generation to wait for."""
        return routing.scale(self._rest, self.namespace, name, min_instances=min_instances, max_instances=max_instances)

    def delete(self, name: str, *, timeout_s: float = _DELETED_S) -> None:
        """Delete the service and wait until it is gone."""
        routing.delete(self._rest, self.namespace, name, timeout_s=timeout_s)

    def put_secret(
        self, name: str, values: Mapping[str, bytes], *, replace: bool = False
    ) -> Literal["created", "changed"]:
        """Set keys of a secret, making it where there is none; with `replace` its other keys go."""
        return secrets.put(self._rest, self.namespace, name, values, replace=replace)

    def secrets(self) -> list[Secret]:
        """The secrets that faas made, without their values."""
        return secrets.listed(self._rest, self.namespace)

    def secret_value(self, name: str, key: str) -> bytes | None:
        """One key of a secret that faas made, None where there is none."""
        return secrets.value(self._rest, self.namespace, name, key)

    def delete_secret(self, name: str) -> None:
        """Delete a secret that faas made."""
        secrets.delete(self._rest, self.namespace, name)

    def facts(self, document: Document | None = None, *, reach: Sequence[Callable[[], Reach]] = ()) -> Facts:
        """What `deploy.doctor.examine` judges; `document` is a service to try in a dry run."""
        return facts.collect(self._rest, document, reach=reach)
