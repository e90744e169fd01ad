"""A small Knative: it makes revisions and pods of services, moves their conditions along, and takes them down again.

What a revision does is chosen by its image, see `Behaviour`. Nothing runs: a pod is its status and a list of log lines.
"""

import asyncio
import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from .stored import Document, Store, now

Behaviour = Literal["ready", "never", "crash", "out of memory", "no image", "unschedulable", "over quota"]

_SERVICE = "serving.knative.dev/service"
_REVISION = "serving.knative.dev/revision"
_GENERATION = "serving.knative.dev/configurationGeneration"


class Controller:
    """Reconciles until it is cancelled. `behaviours` maps an image to what happens to it, `step_s` apart."""

    def __init__(self, store: Store, say: Callable[[str, str], None]) -> None:
        self.behaviours: dict[str, Behaviour] = {}
        self.step_s = 0.005
        self.holds_deletion_s = 0.0
        self._store, self._say = store, say
        self._seen: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            while True:
                for service in self._store.listed("services", None):
                    self._start(service)
                await self._store.changed()
        finally:
            for task in self._tasks:
                task.cancel()

    def _start(self, service: Document) -> None:
        metadata = service["metadata"]
        wanted = -1 if metadata.get("deletionTimestamp") else metadata["generation"]
        if self._seen.get(metadata["uid"]) == wanted:
            return
        self._seen[metadata["uid"]] = wanted
        work = self._take_down(service) if wanted == -1 else self._bring_up(service)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bring_up(self, service: Document) -> None:
        with suppress(KeyError):  # deleted meanwhile
            await self._step()
            revision, is_new = self._revision_of(service)
            name = revision["metadata"]["name"]
            self._conditions(service, "ConfigurationsReady", "Unknown", "RevisionPending", "")
            self._status(service, latestCreatedRevisionName=name, observedGeneration=service["metadata"]["generation"])
            if is_new:
                await self._make_ready(service, revision)
            elif _truth(revision) == "True":
                await self._route(service)

    async def _make_ready(self, service: Document, revision: Document) -> None:
        image = revision["spec"]["containers"][0]["image"]
        behaviour = self.behaviours.get(image, "ready")
        name = revision["metadata"]["name"]
        if behaviour == "over quota":
            self._fail(service, revision, "FailedCreate", "pods is forbidden: exceeded quota: team, requested: pods=1")
            return
        pod = self._pod(service, revision)
        await self._step()
        if behaviour == "unschedulable":
            message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
            self._pod_condition(pod, "PodScheduled", "False", "Unschedulable", message)
            self._fail(service, revision, "Unschedulable", message)  # as Knative does, though a node may come
            return
        self._pod_condition(pod, "PodScheduled", "True", "", "")
        self._container(pod, {"waiting": {"reason": "ContainerCreating"}})
        await self._step()
        if behaviour == "no image":
            message = f'Back-off pulling image "{image}": not found'
            self._container(pod, {"waiting": {"reason": "ImagePullBackOff", "message": message}})
            return
        self._container(pod, {"running": {"startedAt": now()}})
        self._say(pod["metadata"]["name"], f"loading {name}")
        if behaviour == "never":
            return
        await self._step()
        if behaviour in ("crash", "out of memory"):
            await self._crash(service, revision, pod, behaviour)
            return
        self._container(pod, {"running": {"startedAt": now()}}, ready=True)
        self._pod_condition(pod, "Ready", "True", "", "")
        revision["status"] = {"conditions": [_condition("Ready", "True"), _condition("ResourcesAvailable", "True")]}
        self._store.put("revisions", revision)
        await self._route(service)

    async def _crash(self, service: Document, revision: Document, pod: Document, behaviour: str) -> None:
        out_of_memory = behaviour == "out of memory"
        self._say(pod["metadata"]["name"], "Traceback (most recent call last):")
        self._say(pod["metadata"]["name"], "ModuleNotFoundError: No module named 'tokenizers'")
        ended = {"exitCode": 137 if out_of_memory else 1, "reason": "OOMKilled" if out_of_memory else "Error"}
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
        self._container(pod, {"waiting": waiting}, last={"terminated": ended}, restarts=1)
        await self._step()
        self._fail(service, revision, f"ExitCode{ended['exitCode']}", "Container failed with: ")

    async def _route(self, service: Document) -> None:
        """Mark the configuration ready, and traffic as the service has it."""
        live = self._live(service)
        ready = [r for r in self._revisions(live) if _truth(r) == "True"]
        latest = max(ready, key=_number)["metadata"]["name"] if ready else None
        url = f"http://{live['metadata']['name']}.{live['metadata']['namespace']}.example.com"
        self._conditions(live, "RoutesReady", "Unknown", "TrafficNotMigrated", "Traffic is not yet migrated")
        self._status(live, latestReadyRevisionName=latest)
        self._conditions(live, "ConfigurationsReady", "True", "", "")
        await self._step()
        traffic = []
        for share in self._live(service)["spec"]["traffic"]:
            entry = {**share, "revisionName": share.get("revisionName") or latest}
            if share.get("tag"):
                entry["url"] = url.replace("http://", f"http://{share['tag']}-")
            traffic.append(entry)
        self._status(service, url=url, traffic=traffic)
        self._conditions(service, "RoutesReady", "True", "", "")

    async def _take_down(self, service: Document) -> None:
        await asyncio.sleep(self.holds_deletion_s)
        namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
        for plural in ("pods", "revisions"):
            for child in self._store.listed(plural, namespace):
                if child["metadata"]["labels"].get(_SERVICE) == name:
                    self._store.remove(plural, namespace, child["metadata"]["name"])
        self._store.remove("services", namespace, name)

    def _revision_of(self, service: Document) -> tuple[Document, bool]:
        """The revision for the service's template, and whether it was made just now."""
        template = copy.deepcopy(service["spec"]["template"])
        metadata = template.get("metadata", {})
        given = metadata.pop("name", None) or None
        revisions = self._revisions(service)
        newest = max(revisions, key=_number, default=None)
        if newest is not None and newest["template"] == template and given in (None, newest["metadata"]["name"]):
            return newest, False
        number = 1 if newest is None else _number(newest) + 1
        labels = {**metadata.get("labels", {}), _SERVICE: service["metadata"]["name"], _GENERATION: str(number)}
        revision = {
            "apiVersion": "serving.knative.dev/v1",
            "kind": "Revision",
            "metadata": {
                "name": given or f"{service['metadata']['name']}-{number:05d}",
                "namespace": service["metadata"]["namespace"],
                "labels": labels,
                "annotations": dict(metadata.get("annotations", {})),
            },
            "spec": template["spec"],
            "status": {"conditions": [_condition("Ready", "Unknown", "Deploying", "")]},
            "template": template,  # the simulation's own note
        }
        return self._store.put("revisions", revision), True

    def _revisions(self, service: Document) -> list[Document]:
        namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
        listed = self._store.listed("revisions", namespace)
        return [revision for revision in listed if revision["metadata"]["labels"][_SERVICE] == name]

    def _pod(self, service: Document, revision: Document) -> Document:
        name = revision["metadata"]["name"]
        labels = {**revision["metadata"]["labels"], _REVISION: name}
        metadata = {"name": f"{name}-deployment-x1", "namespace": service["metadata"]["namespace"], "labels": labels}
        containers = [
            {"name": "queue-proxy", "ports": [{"containerPort": 8012}]},
            {**revision["spec"]["containers"][0], "name": "user-container"},
        ]
        spec = {"containers": containers}
        status = {"phase": "Pending", "conditions": [], "containerStatuses": []}
        return self._store.put("pods", {"metadata": metadata, "spec": spec, "status": status})

    def _pod_condition(self, pod: Document, kind: str, status: str, reason: str, message: str) -> None:
        others = [found for found in pod["status"]["conditions"] if found["type"] != kind]
        pod["status"]["conditions"] = [*others, _condition(kind, status, reason, message)]
        if kind == "PodScheduled" and status == "True":
            pod["spec"]["nodeName"] = "node-1"
        self._store.put("pods", pod)

    def _container(
        self, pod: Document, state: Document, *, ready: bool = False, last: Document | None = None, restarts: int = 0
    ) -> None:
        pod["status"]["containerStatuses"] = [
            {"name": "queue-proxy", "ready": ready, "restartCount": 0, "state": state if ready else {"running": {}}},
            {
                "name": "user-container",
                "ready": ready,
                "restartCount": restarts,
                "state": state,
                "lastState": last or {},
            },
        ]
        self._store.put("pods", pod)

    def _fail(self, service: Document, revision: Document, reason: str, message: str) -> None:
        name = revision["metadata"]["name"]
        revision["status"] = {"conditions": [_condition("Ready", "False", reason, message)]}
        self._store.put("revisions", revision)
        said = f'Revision "{name}" failed with message: {message}.'
        self._conditions(service, "ConfigurationsReady", "False", "RevisionFailed", said)

    def _live(self, service: Document) -> Document:
        return copy.deepcopy(
            self._store.objects["services", service["metadata"]["namespace"], service["metadata"]["name"]]
        )

    def _status(self, service: Document, **fields: Any) -> None:
        live = self._live(service)
        live.setdefault("status", {}).update(fields)
        self._store.put("services", live)

    def _conditions(self, service: Document, kind: str, status: str, reason: str, message: str) -> None:
        """Set one of the two conditions; `Ready` follows from them as in Knative."""
        live = self._live(service)
        held = {found["type"]: found for found in live.setdefault("status", {}).get("conditions", [])}
        held[kind] = _condition(kind, status, reason, message)
        parts = [held.get(part, _condition(part, "Unknown")) for part in ("ConfigurationsReady", "RoutesReady")]
        worst = next((p for s in ("False", "Unknown") for p in parts if p["status"] == s), None)
        held["Ready"] = {**worst, "type": "Ready"} if worst else _condition("Ready", "True")
        live["status"]["conditions"] = [held[key] for key in sorted(held)]
        self._store.put("services", live)

    async def _step(self) -> None:
        await asyncio.sleep(self.step_s)


def _condition(kind: str, status: str, reason: str = "", message: str = "") -> Document:
    found = {"type": kind, "status": status, "lastTransitionTime": now()}
    return found | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def _truth(revision: Document) -> str:
    return str(revision["status"]["conditions"][0]["status"])


def _number(revision: Document) -> int:
    return int(revision["metadata"]["labels"][_GENERATION])
