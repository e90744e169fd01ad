"""Waiting for a service: until it is ready, with what happens meanwhile, or until it is gone."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import cast

from deploy.errors import ClusterError, NotReady
from deploy.knative.hints import hint
from deploy.knative.log_text import plain_lines
from deploy.knative.merged import Ended, Merged
from deploy.knative.progress import Progress, Trouble, look
from deploy.knative.resources import (
    EVENTS,
    PODS,
    REVISIONS,
    SERVICE_LABEL,
    SERVICES,
    USER_CONTAINER,
    Document,
    condition,
)
from deploy.knative.rest import Rest
from deploy.knative.watching import Changed, Listed, Watch

_SETTLE_S = 5.0  # Knative takes some failures back, and the kubelet tries again
_PULLS, _PULL_FACTOR = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"), 3  # tried again after 10 s
_LOG_LINES = 20

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class Ready:
    """A service that answers. `revision` is the latest one; `receives_traffic` is False where traffic is pinned.

    `generation` is that of the service: above the one that was deployed, somebody else has changed it meanwhile.
    """

    name: str
    url: str
    revision: str
    receives_traffic: bool
    waited_s: float
    generation: int


@dataclass
class _Seen:
    """What the two watches have said so far."""

    service: Document | None
    pods: dict[str, Document]

    def take(self, source: object, event: Listed | Changed) -> None:
        if source == "service":
            found = event.items[0] if isinstance(event, Listed) and event.items else None
            if isinstance(event, Changed) and event.kind != "DELETED":
                found = event.object
            self.service = found
        elif isinstance(event, Listed):
            self.pods = {pod["metadata"]["name"]: pod for pod in event.items}
        elif event.kind == "DELETED":
            self.pods.pop(event.object["metadata"]["name"], None)
        else:
            self.pods[event.object["metadata"]["name"]] = event.object


def wait_ready(
    rest: Rest,
    namespace: str,
    name: str,
    *,
    timeout_s: float,
    generation: int = 0,
    on_progress: OnProgress = lambda _: None,
    settle_s: float = _SETTLE_S,
    clock: Callable[[], float] = time.monotonic,
) -> Ready:
    """Wait until the service is ready in `generation` or a later one; `on_progress` hears of each change.

    Raises `NotReady`: at once where the service is gone, once a failure has stood for `settle_s` (thrice that where an
    image cannot be pulled), or after `timeout_s`, with the reason, the pod that shows it and its last log lines.
    """
    begun = clock()
    deadline = begun + timeout_s
    seen = _Seen(None, {})
    last, failing_since = Progress("configuration", "waiting for the cluster"), None
    with Merged[Listed | Changed]() as sources:
        _watch(sources, "service", Watch(rest, SERVICES.path(namespace), _named(name), clock=clock), deadline)
        pods = {"labelSelector": f"{SERVICE_LABEL}={name}"}
        _watch(sources, "pods", Watch(rest, PODS.path(namespace), pods, clock=clock), deadline)
        while True:
            decided = deadline if failing_since is None else min(deadline, failing_since + _settle_s(last, settle_s))
            came = sources.next(decided - clock())
            if came is None:
                raise _not_ready(
                    rest,
                    namespace,
                    name,
                    last,
                    pods=seen.pods.values(),
                    timeout_s=timeout_s if clock() >= deadline else None,
                )
            source, event = came
            if isinstance(event, Ended):
                if event.error is not None:
                    raise event.error
                continue
            seen.take(source, event)
            if seen.service is None:
                if source == "service":
                    raise NotReady(f"service {name} in {namespace} is gone; deploy it again", reason="Deleted")
                continue
            now = look(seen.service, seen.pods.values(), generation)
            if now != last:
                on_progress(now)
            last = now
            failing_since = None if now.trouble is None else (failing_since or clock())
            if now.is_ready:
                return _ready(name, seen.service, clock() - begun)


def wait_gone(rest: Rest, namespace: str, name: str, *, timeout_s: float) -> None:
    """Wait until there is no such service; raises `ClusterError` where it is still there after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    watch = Watch(rest, SERVICES.path(namespace), _named(name))
    for event in watch.events(deadline):
        if (isinstance(event, Listed) and not event.items) or (isinstance(event, Changed) and event.kind == "DELETED"):
            return
    raise ClusterError(
        f"service {name} in {namespace} is still being deleted after {timeout_s:g} s; see what holds it "
        f"with: kubectl get ksvc {name} -n {namespace} -o jsonpath='{{.metadata.finalizers}}'"
    )


def _settle_s(last: Progress, settle_s: float) -> float:
    """How long a failure has to stand: longer for a pull, which a registry may have turned away for a moment."""
    return settle_s * _PULL_FACTOR if last.trouble is not None and last.trouble.reason in _PULLS else settle_s


def _watch(sources: Merged[Listed | Changed], key: str, watch: Watch, deadline: float) -> None:
    sources.add(key, watch.events(deadline), watch.stop)


def _named(name: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={name}"}


def _ready(name: str, service: Document, waited_s: float) -> Ready:
    status = service["status"]
    revision = status.get("latestReadyRevisionName", "")
    receives = any(
        int(t.get("percent") or 0) and t.get("revisionName") == revision for t in status.get("traffic") or []
    )
    generation = int(service["metadata"].get("generation") or 0)
    return Ready(name, status.get("url", ""), revision, receives, waited_s, generation)


def _not_ready(
    rest: Rest, namespace: str, name: str, last: Progress, *, pods: Iterable[Document], timeout_s: float | None
) -> NotReady:
    """The error for a wait that ends at `timeout_s`, or before it (None) because the service has failed."""
    trouble = last.trouble or _slow(last)
    if trouble.pod is None and last.revision is not None:
        trouble = _of_revision(rest, namespace, last.revision) or trouble
    elif last.trouble is None and last.stage in ("creating", "starting"):
        trouble = _of_events(rest, namespace, trouble) or trouble
    reason = trouble.reason if last.trouble is not None else "Timeout"
    log = [] if trouble.pod is None or last.stage == "scheduling" else _last_lines(rest, namespace, trouble)
    what = "failed" if timeout_s is None else f"is not ready after {timeout_s:g} s"
    revision = "" if last.revision is None else f" (revision {last.revision})"
    pod = "" if trouble.pod is None else f", pod {trouble.pod}"
    see = f"kubectl describe pod {trouble.pod} -n {namespace}" if trouble.pod else f"faas describe {name}"
    said = ": ".join(part for part in (trouble.reason, trouble.message.rstrip(". ")) if part)
    said += hint(trouble, last.revision, pods, log)
    message = f"service {name}{revision} {what}{pod}: {said}; see more with: {see}"
    return NotReady(message, reason=reason, pod=trouble.pod, log=log)


def _of_revision(rest: Rest, namespace: str, revision: str) -> Trouble | None:
    """What the revision itself says is wrong: the service only says that its revision failed."""
    try:
        found = rest.get(REVISIONS.path(namespace, revision))
    except ClusterError:
        return None
    for kind in ("ResourcesAvailable", "ContainerHealthy", "Ready"):
        if (said := condition(found, kind)).get("status") == "False":
            return Trouble(said.get("reason") or "Failed", said.get("message") or f"{kind} is False")
    return None


def _of_events(rest: Rest, namespace: str, slow: Trouble) -> Trouble | None:
    """What the kubelet warned of last while a pod was being started: a volume that is not to be had, a probe that
    fails. Of that the pod itself says nothing."""
    try:
        found = rest.list_all(EVENTS.path(namespace), {"fieldSelector": f"involvedObject.name={slow.pod}"})["items"]
    except ClusterError:  # events may not be read: the stage has to do
        return None
    warnings = [event for event in found if event.get("type") == "Warning"]
    if slow.pod is None or not warnings:
        return None
    newest = max(warnings, key=_at)
    message = " ".join(str(newest.get("message") or "").split())
    return replace(slow, reason=str(newest.get("reason") or slow.reason), message=message or slow.message)


def _at(event: Document) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")


def _slow(last: Progress) -> Trouble:
    """What was going on when time ran out."""
    for pod in last.pods:
        if pod.stage in ("scheduling", "creating", "starting"):
            return Trouble(pod.reason or pod.stage, pod.message, pod.name, pod.container, pod.num_restarts)
    return Trouble(last.stage, last.message)


def _last_lines(rest: Rest, namespace: str, trouble: Trouble) -> list[str]:
    """The end of the container's log, of its last run where it runs no more; empty where there is none."""
    path = PODS.path(namespace, cast(str, trouble.pod), "log")
    query: dict[str, str | int] = {"container": trouble.container or USER_CONTAINER, "tailLines": _LOG_LINES}
    for previous in (True, False) if trouble.num_restarts else (False,):
        try:
            text = rest.text(path, {**query, "previous": previous})
        except ClusterError:
            continue  # the log is gone, or may not be read: the reason has to do
        if found := plain_lines(text):
            return found
    return []
