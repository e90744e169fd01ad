"""What the starts of a service's instances cost: the node, the image, the container, and what the instance itself says.

Kubernetes stamps its conditions to the second; how long an image was pulled stands in an event, to the millisecond and
for about an hour; phases are the instance's own (`faas_cold_start_seconds`), read while it runs.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from deploy.errors import ApiError, NotAllowed, Unreachable
from deploy.knative.apply import existing
from deploy.knative.metrics import text_of
from deploy.knative.pods import pod_state
from deploy.knative.resources import (
    EVENTS,
    PODS,
    REVISION_LABEL,
    SERVICE_LABEL,
    USER_CONTAINER,
    Document,
    condition,
    label,
)
from deploy.knative.rest import Rest

_PULLED_IN = re.compile(r"in ((?:[\d.]+(?:h|m(?!s)|s|ms|us|µs))+)")
_SHARES_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_PRESENT = "already present"
_PHASES = "faas_cold_start_seconds"


@dataclass(frozen=True)
class ColdStart:
    """One start. Seconds, None where they are not known, or not yet.

    `scheduling_s` from the pod's creation to its node; `container_s` from there until its container runs, `image_s` of
    which went on the image (0: the node had it); `ready_s` from there until it is ready; `total_s` all of it.
    `phases_s` are those of the instance, within `ready_s` for the most part.
    """

    pod: str
    revision: str
    node: str | None
    created_at: str
    scheduling_s: float | None = None
    image_s: float | None = None
    container_s: float | None = None
    ready_s: float | None = None
    total_s: float | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)


def cold_starts(rest: Rest, namespace: str, name: str) -> list[ColdStart]:
    """The starts of the instances that there are now, the newest first; raises `Missing` where there is no service.

    What may not be read (events, pods through the API server) is left out.
    """
    existing(rest, namespace, name)
    pods = rest.list_all(PODS.path(namespace), {"labelSelector": f"{SERVICE_LABEL}={name}"})["items"]
    pulled: list[Document] = []
    with suppress(NotAllowed):
        pulled = rest.list_all(EVENTS.path(namespace), {"fieldSelector": "reason=Pulled"})["items"]
    found = [cold_start(pod, pulled, _phases(rest, namespace, pod)) for pod in pods]
    return sorted(found, key=lambda start: (start.created_at, start.pod), reverse=True)


def cold_start(pod: Document, pulled: Iterable[Document], phases_s: Mapping[str, float]) -> ColdStart:
    """Read a pod and the events that tell of pulled images. Pure."""
    created = pod["metadata"].get("creationTimestamp")
    scheduled = _since(pod, "PodScheduled")
    running = _running(pod)
    ready = _since(pod, "Ready")
    return ColdStart(
        pod=pod["metadata"]["name"],
        revision=label(pod, REVISION_LABEL) or "",
        node=pod["spec"].get("nodeName"),
        created_at=created or "",
        scheduling_s=_between(created, scheduled),
        image_s=_image_s(pod, pulled),
        container_s=_between(scheduled, running),
        ready_s=_between(running, ready),
        total_s=_between(created, ready),
        phases_s=dict(phases_s),
    )


def seconds(text: str) -> float | None:
    """A duration as Go writes it (`1m2.5s`), in seconds; None where `text` has none after the word "in"."""
    found = _PULLED_IN.search(text)
    if found is None:
        return None
    parts = re.findall(r"([\d.]+)(h|ms|us|µs|m|s)", found[1])
    return sum(float(number) * _SHARES_S[unit] for number, unit in parts)


def phases(text: str) -> dict[str, float]:
    """The phases of an instance's start, from its metrics in Prometheus' text format."""
    from prometheus_client.parser import text_string_to_metric_families  # only who asks for starts reads metrics

    return {
        sample.labels["phase"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == _PHASES and "phase" in sample.labels
    }


def _phases(rest: Rest, namespace: str, pod: Document) -> dict[str, float]:
    if pod_state(pod).stage != "ready":
        return {}
    try:
        return phases(text_of(rest, namespace, pod))
    except (NotAllowed, ApiError, Unreachable):
        return {}


def _since(pod: Document, kind: str) -> str | None:
    found = condition(pod, kind)
    return found.get("lastTransitionTime") if found.get("status") == "True" else None


def _running(pod: Document) -> str | None:
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if status.get("name") == USER_CONTAINER:
            at: str | None = ((status.get("state") or {}).get("running") or {}).get("startedAt")
            return at
    return None


def _image_s(pod: Document, pulled: Iterable[Document]) -> float | None:
    """How long the image of the function's container was pulled, 0 where it was there, None where nothing tells."""
    for event in pulled:
        about = event.get("involvedObject") or {}
        if about.get("uid") != pod["metadata"].get("uid") or USER_CONTAINER not in (about.get("fieldPath") or ""):
            continue
        message = str(event.get("message") or "")
        return 0.0 if _PRESENT in message else seconds(message)
    return None


def _between(begun: str | None, ended: str | None) -> float | None:
    if begun is None or ended is None:
        return None
    return max(0.0, (_time(ended) - _time(begun)).total_seconds())


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
