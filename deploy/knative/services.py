"""The services that faas made, and what a cluster knows of each: revisions, traffic, instances, conditions."""

from collections.abc import Iterable
from dataclasses import dataclass

from deploy.knative.apply import existing
from deploy.knative.pods import PodState, pod_state
from deploy.knative.resources import (
    COMPONENT,
    GENERATION_LABEL,
    NAME_ANNOTATION,
    OURS_SELECTOR,
    PODS,
    REVISION_LABEL,
    REVISIONS,
    SERVICE_LABEL,
    SERVICES,
    Document,
    condition,
    label,
)
from deploy.knative.rest import Rest
from deploy.traffic import Plan, from_document, shares_of

_SCALING = "autoscaling.knative.dev/"


@dataclass(frozen=True)
class Condition:
    """One condition of a service or revision, `status` being `True`, `False` or `Unknown`."""

    kind: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True)
class Service:
    """One line of a listing. `name` is the function's, `label` the cluster's; `ready` None means not decided yet.

    `component` says what it is where it is no function (`pool`), by the label that Kubernetes has for that.
    """

    name: str
    label: str
    namespace: str
    url: str | None
    ready: bool | None
    reason: str
    revision: str | None
    image: str
    num_instances: int
    created_at: str
    component: str = ""


@dataclass(frozen=True)
class Revision:
    """One revision. `created_at` is as the API server writes it (RFC 3339), `percent` its share of the requests."""

    name: str
    number: int
    image: str
    created_at: str
    ready: bool | None
    reason: str
    message: str
    percent: int
    tags: tuple[str, ...]
    num_instances: int
    min_instances: int
    max_instances: int
    concurrency: int


@dataclass(frozen=True)
class Instance:
    """One pod. `node` is None until it is scheduled."""

    state: PodState
    revision: str
    node: str | None
    created_at: str


@dataclass(frozen=True)
class Url:
    """An address of the service, or of a tagged revision of it."""

    url: str
    tag: str | None = None


@dataclass(frozen=True)
class Detail:
    """All that is known of one service, the newest revision first."""

    service: Service
    conditions: tuple[Condition, ...]
    traffic: Plan
    urls: tuple[Url, ...]
    revisions: tuple[Revision, ...]
    instances: tuple[Instance, ...]


def services(rest: Rest, namespace: str | None) -> list[Service]:
    """The services made by faas in `namespace` (None: in all of them), by namespace and name."""
    found = rest.list_all(SERVICES.path(namespace), {"labelSelector": OURS_SELECTOR})["items"]
    pods = rest.list_all(PODS.path(namespace), {"labelSelector": f"{SERVICE_LABEL},{OURS_SELECTOR}"})["items"]
    summaries = [_summary(service, _pods_of(service, pods)) for service in found]
    return sorted(summaries, key=lambda summary: (summary.namespace, summary.label))


def describe(rest: Rest, namespace: str, name: str) -> Detail:
    """Everything about the service with the label `name`; raises `Missing` where there is none."""
    service = existing(rest, namespace, name)
    selector = {"labelSelector": f"{SERVICE_LABEL}={name}"}
    pods = rest.list_all(PODS.path(namespace), selector)["items"]
    revisions = rest.list_all(REVISIONS.path(namespace), selector)["items"]
    latest = (service.get("status") or {}).get("latestReadyRevisionName")
    plan = from_document(service["spec"].get("traffic"))
    details = [_revision(revision, plan, latest, pods) for revision in revisions]
    return Detail(
        service=_summary(service, pods),
        conditions=_conditions(service),
        traffic=plan,
        urls=_urls(service),
        revisions=tuple(sorted(details, key=lambda revision: revision.number, reverse=True)),
        instances=tuple(_instance(pod) for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))),
    )


def _summary(service: Document, pods: list[Document]) -> Service:
    metadata, status, ready = service["metadata"], service.get("status") or {}, condition(service, "Ready")
    container = service["spec"]["template"]["spec"]["containers"][0]
    return Service(
        name=(metadata.get("annotations") or {}).get(NAME_ANNOTATION, metadata["name"]),
        label=metadata["name"],
        namespace=metadata["namespace"],
        url=status.get("url"),
        ready=_truth(ready),
        reason=_reason(ready, pods),
        revision=status.get("latestReadyRevisionName"),
        image=container["image"],
        num_instances=_num_ready(pods),
        created_at=metadata.get("creationTimestamp", ""),
        component=label(service, COMPONENT) or "",
    )


def _revision(revision: Document, plan: Plan, latest: str | None, pods: list[Document]) -> Revision:
    metadata, ready = revision["metadata"], condition(revision, "Ready")
    name, annotations = metadata["name"], metadata.get("annotations") or {}
    own = [pod for pod in pods if label(pod, REVISION_LABEL) == name]
    return Revision(
        name=name,
        number=int(label(revision, GENERATION_LABEL) or 0),
        image=revision["spec"]["containers"][0]["image"],
        created_at=metadata.get("creationTimestamp", ""),
        ready=_truth(ready),
        reason=_reason(ready, own),
        message=ready.get("message") or "",
        percent=shares_of(plan, latest).get(name, 0),
        tags=tuple(share.tag for share in plan if share.tag is not None and (share.revision or latest) == name),
        num_instances=_num_ready(own),
        min_instances=int(annotations.get(f"{_SCALING}min-scale") or 0),
        max_instances=int(annotations.get(f"{_SCALING}max-scale") or 0),
        concurrency=int(revision["spec"].get("containerConcurrency") or 0),
    )


def _instance(pod: Document) -> Instance:
    created_at = pod["metadata"].get("creationTimestamp", "")
    return Instance(pod_state(pod), label(pod, REVISION_LABEL) or "", pod["spec"].get("nodeName"), created_at)


def _conditions(document: Document) -> tuple[Condition, ...]:
    return tuple(
        Condition(found["type"], found["status"], found.get("reason") or "", found.get("message") or "")
        for found in (document.get("status") or {}).get("conditions") or []
    )


def _urls(service: Document) -> tuple[Url, ...]:
    status = service.get("status") or {}
    tagged = [Url(t["url"], t["tag"]) for t in status.get("traffic") or [] if t.get("tag") and t.get("url")]
    return tuple([Url(status["url"]), *tagged] if status.get("url") else tagged)


def _pods_of(service: Document, pods: list[Document]) -> list[Document]:
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    return [pod for pod in pods if pod["metadata"]["namespace"] == namespace and label(pod, SERVICE_LABEL) == name]


def _reason(ready: Document, pods: Iterable[Document]) -> str:
    """Why it is not ready: what a pod fails of, which Knative takes note of late, or what Knative says."""
    states = [] if ready.get("status") == "True" else [pod_state(pod) for pod in pods]
    return next((state.reason for state in states if state.failing), ready.get("reason") or "")


def _num_ready(pods: Iterable[Document]) -> int:
    return sum(pod_state(pod).stage == "ready" for pod in pods)


def _truth(found: Document) -> bool | None:
    return {"True": True, "False": False}.get(found.get("status", ""))
