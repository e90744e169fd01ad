"""What stands between a request and the store for a Knative Service: defaults, then the schema, then the webhook."""

import copy
from typing import Any

from tests.deploy.webhook import refusals

from .answers import Answer, denied
from .schema import problems
from .stored import Document

FEATURES = (
    "kubernetes.podspec-volumes-hostpath",
    "kubernetes.podspec-persistent-volume-claim",
    "kubernetes.podspec-volumes-image",
    "kubernetes.podspec-affinity",
)


def defaulted(service: Document, before: Document | None) -> Document:
    """As Knative's defaulting webhook leaves it, in what matters here."""
    found = copy.deepcopy(service)
    annotations = found["metadata"].setdefault("annotations", {})
    annotations["serving.knative.dev/creator"] = "somebody"
    if before is None or before["spec"] != service["spec"]:
        annotations["serving.knative.dev/lastModifier"] = "somebody"
    spec = found["spec"]
    spec.setdefault("traffic", [{"latestRevision": True, "percent": 100}])
    for share in spec["traffic"]:
        share.setdefault("latestRevision", "revisionName" not in share)
    revision = spec["template"]["spec"]
    revision.setdefault("containerConcurrency", 0)
    revision.setdefault("timeoutSeconds", 300)
    for container in revision["containers"]:
        container.setdefault("name", "user-container")
        for port in container.get("ports", []):
            port.setdefault("protocol", "TCP")
    return found


def check(service: Document, before: Document | None, *, flags: tuple[str, ...], max_timeout_s: int) -> None:
    """Raise the `Answer` of the schema, or of the validating webhook."""
    if wrong := problems(service):
        name = service["metadata"]["name"]
        raise Answer(422, f'Service.serving.knative.dev "{name}" is invalid: {"; ".join(wrong)}')
    found = refusals(_as_written(service), flags=flags, max_timeout_s=max_timeout_s)
    found += _traffic(service["spec"]["traffic"])
    if before is not None:
        found += _name_change(before["spec"]["template"], service["spec"]["template"])
    if found:
        raise denied(found)


def _as_written(service: Document) -> Document:
    """Without what the defaults put in: the rules in `tests.deploy.webhook` know only fields that we write."""
    found: Any = copy.deepcopy(service)
    for container in found["spec"]["template"]["spec"]["containers"]:
        container.pop("name", None)
    return dict(found)


def _traffic(traffic: list[Document]) -> list[str]:
    total = sum(share.get("percent") or 0 for share in traffic)
    found = [] if total == 100 else [f"Traffic targets sum to {total}, want 100: spec.traffic"]
    tags = [share["tag"] for share in traffic if share.get("tag")]
    found += [f'Multiple definitions for "{tag}": spec.traffic' for tag in set(tags) if tags.count(tag) > 1]
    for i, share in enumerate(traffic):
        if bool(share.get("revisionName")) == bool(share.get("latestRevision")):
            found.append(f"invalid value: {share.get('latestRevision')}: spec.traffic[{i}].latestRevision")
    return found


def _name_change(before: Document, after: Document) -> list[str]:
    name = after.get("metadata", {}).get("name")
    if name and name == before.get("metadata", {}).get("name") and before != after:
        return ["Saw the following changes without a name change (-old +new): spec.template.metadata.name"]
    return []
