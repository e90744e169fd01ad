"""Where the objects live in the API: the group and plural of each kind that is read or written, and its path."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Document = dict[str, Any]

SERVING = "serving.knative.dev"
SERVICE_LABEL = f"{SERVING}/service"
REVISION_LABEL = f"{SERVING}/revision"
GENERATION_LABEL = f"{SERVING}/configurationGeneration"
MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = {MANAGED_BY: "faas"}
COMPONENT = "app.kubernetes.io/component"
OURS_SELECTOR = f"{MANAGED_BY}=faas"
NAME_ANNOTATION = "faas/name"
USER_CONTAINER = "user-container"  # what Knative names the one container that has no name


@dataclass(frozen=True)
class Kind:
    """One kind of object: `group` is empty for the core API."""

    group: str
    version: str
    plural: str

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of the collection, of one object, or of a part of it; without a namespace, over all of them."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource is not None:
            parts.append(subresource)
        return "/" + "/".join(quote(part, safe="") for part in parts)


SERVICES = Kind(SERVING, "v1", "services")
REVISIONS = Kind(SERVING, "v1", "revisions")
PODS = Kind("", "v1", "pods")
EVENTS = Kind("", "v1", "events")
SECRETS = Kind("", "v1", "secrets")
CONFIG_MAPS = Kind("", "v1", "configmaps")
NODES = Kind("", "v1", "nodes")
QUOTAS = Kind("", "v1", "resourcequotas")


def condition(document: Document, kind: str) -> Document:
    """The condition of type `kind` in a status, an empty mapping where it has none yet."""
    for found in (document.get("status") or {}).get("conditions") or []:
        if found.get("type") == kind:
            return dict(found)
    return {}


def label(document: Document, key: str) -> str | None:
    """The value of a label, None where it is not set."""
    value = (document["metadata"].get("labels") or {}).get(key)
    return None if value is None else str(value)
