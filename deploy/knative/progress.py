"""How far a service has come on its way to Ready. Pure: from the service and its pods, as the API server has them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from deploy.knative.pods import PodState, pod_state
from deploy.knative.resources import REVISION_LABEL, Document, condition, label

Stage = Literal["configuration", "revision", "scheduling", "creating", "starting", "route", "ready"]

_SLOWEST_FIRST: tuple[Stage, ...] = ("scheduling", "creating", "starting")
_OF_SCHEDULER = re.compile(r"\d+/\d+ nodes are available|no nodes available to schedule pods")
"""What the scheduler says of a pod that it finds no node for, as Knative passes it on."""


@dataclass(frozen=True)
class Trouble:
    """Why a service will hardly become ready. `pod` and `container` are where to look, where that is known."""

    reason: str
    message: str
    pod: str | None = None
    container: str | None = None
    num_restarts: int = 0


@dataclass(frozen=True)
class Progress:
    """One look: the stage, a sentence on it, the revision that is being made ready, and its pods."""

    stage: Stage
    message: str
    revision: str | None = None
    pods: tuple[PodState, ...] = ()
    trouble: Trouble | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the service answers with its latest revision, or whichever its traffic is pinned to."""
        return self.stage == "ready"


def look(service: Document, pods: Iterable[Document], generation: int = 0) -> Progress:
    """Where `service` stands, in respect of the generation that was deployed (0: whichever it has now).

    Conditions of an older generation say nothing: a service that was ready before a change still says so for a moment.
    """
    status, wanted = service.get("status") or {}, max(generation, int(service["metadata"].get("generation") or 0))
    if int(status.get("observedGeneration") or 0) < wanted:
        return Progress("configuration", "waiting for Knative to take notice")
    if condition(service, "Ready").get("status") == "True":
        return Progress("ready", f"ready at {status.get('url')}", status.get("latestReadyRevisionName"))
    revision = status.get("latestCreatedRevisionName")
    if revision is None:
        return Progress("configuration", _said(service, "ConfigurationsReady") or "waiting for a revision")
    states = tuple(pod_state(pod) for pod in pods if label(pod, REVISION_LABEL) == revision)
    trouble = _trouble(service, states)
    if condition(service, "ConfigurationsReady").get("status") == "True":
        return Progress("route", _said(service, "RoutesReady") or "moving traffic", revision, states, trouble)
    is_of_before = revision == status.get("latestReadyRevisionName")  # the one to come is not made yet
    stage, message = _stage(() if is_of_before and trouble is None else states)
    if trouble is not None:
        message = f"{trouble.reason}: {trouble.message}"
    return Progress(stage, message or _said(service, "ConfigurationsReady"), revision, states, trouble)


def has_failed(service: Document) -> bool:
    """Whether the latest revision of a service has failed for good: Knative does not try it again by itself."""
    status, found = service.get("status") or {}, condition(service, "ConfigurationsReady")
    is_of_now = int(status.get("observedGeneration") or 0) == int(service["metadata"].get("generation") or 0)
    return is_of_now and found.get("status") == "False" and not _OF_SCHEDULER.search(found.get("message") or "")


def _stage(pods: tuple[PodState, ...]) -> tuple[Stage, str]:
    """The stage of the pod that has come furthest: one is enough for a revision to be ready."""
    if any(pod.stage == "ready" for pod in pods):
        return "starting", "a pod is ready, Knative is about to notice"
    for stage in reversed(_SLOWEST_FIRST):
        for pod in pods:
            if pod.stage == stage:
                return stage, ": ".join(part for part in (pod.reason, pod.message) if part)
    return "revision", ""


def _trouble(service: Document, pods: tuple[PodState, ...]) -> Trouble | None:
    """What Knative says has failed, told by the pod that shows why; or a pod that fails, before Knative says so."""
    is_another_coming = any(pod.stage in _SLOWEST_FIRST for pod in pods)
    failing = next((pod for pod in pods if pod.failing and not (pod.is_over and is_another_coming)), None)
    if failing is not None and not any(pod.stage == "ready" for pod in pods):
        return Trouble(failing.reason, failing.message, failing.name, failing.container, failing.num_restarts)
    for kind in ("ConfigurationsReady", "RoutesReady", "Ready"):
        found = condition(service, kind)
        if found.get("status") == "False":
            if _waits_for_a_node(pods, found.get("message") or ""):
                return None
            return Trouble(found.get("reason") or "Failed", found.get("message") or f"{kind} is False")
    return None


def _waits_for_a_node(pods: tuple[PodState, ...], message: str) -> bool:
    """Whether what Knative calls a failure is that a pod has, or had, no node: one may come, or room on one.

    Knative takes it back only some time after the pod is ready, so that it says so until then.
    """
    is_coming = any(pod.stage in (*_SLOWEST_FIRST, "ready") for pod in pods)
    return any(pod.stage == "scheduling" and pod.reason for pod in pods) or (
        is_coming and _OF_SCHEDULER.search(message) is not None
    )


def _said(service: Document, kind: str) -> str:
    found = condition(service, kind)
    return str(found.get("message") or found.get("reason") or "")
