"""The facts that `deploy.doctor` judges, asked of a cluster: each by itself, since a right may be missing for any."""

import email.utils
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from deploy.doctor import Facts, Node, Quota, Reach
from deploy.errors import ClusterError, Missing, NotAllowed
from deploy.knative.apply import apply
from deploy.knative.resources import CONFIG_MAPS, NODES, QUOTAS, SERVICES, Document, condition
from deploy.knative.rest import Rest

_SYSTEM = "knative-serving"
_SERVING_API = "/apis/serving.knative.dev/v1"
_INGRESS_API = "/apis/networking.internal.knative.dev/v1alpha1"

T = TypeVar("T")


def collect(
    rest: Rest,
    document: Document | None = None,
    *,
    reach: Sequence[Callable[[], Reach]] = (),
    now: Callable[[], float] = time.time,
) -> Facts:
    """Ask what can be asked; `document` is a service to try in a dry run, `reach` looks at a registry or bucket.

    Never raises for what the cluster says: a fact that is not to be had is None.
    """
    host = rest.connection.host
    try:
        began, (date, version), ended = now(), rest.date(), now()
    except ClusterError as failed:
        return Facts(host=host, problem=str(failed), reaches=tuple(look() for look in reach))
    features, network = _config(rest, "features"), _config(rest, "network")
    forbidden, refusal = _tried(lambda: rest.get(SERVICES.path(rest.connection.namespace), {"limit": 1}))[0], None
    if document is not None:
        of_apply, refusal = _tried(lambda: apply(rest, document, dry_run=True))
        forbidden = of_apply or forbidden
    return Facts(
        host=host,
        version=version,
        has_serving=_is_there(rest, _SERVING_API),
        has_ingress=_is_there(rest, _INGRESS_API),
        serving_version=None if features is None else _version(features),
        ingress_class=None if network is None else _data(network).get("ingress-class"),
        features=None if features is None else _data(features),
        defaults=None if (defaults := _config(rest, "defaults")) is None else _data(defaults),
        forbidden=forbidden,
        refusal=refusal or None,
        was_tried=refusal is not None,
        nodes=_allowed(lambda: tuple(_node(node) for node in rest.list_all(NODES.path())["items"])),
        quotas=_allowed(lambda: _quotas(rest)),
        skew_s=_skew_s(date, (began + ended) / 2),
        reaches=tuple(look() for look in reach),
    )


def _allowed(ask: Callable[[], T]) -> T | None:
    """What `ask` finds out, None where that is not allowed or not there."""
    try:
        return ask()
    except ClusterError:
        return None


def _is_there(rest: Rest, path: str) -> bool | None:
    """Whether the API server serves an API; what it serves, anybody who is logged in may ask."""
    try:
        rest.get(path)
    except Missing:
        return False
    except ClusterError:
        return None
    return True


def _tried(ask: Callable[[], object]) -> tuple[str | None, str | None]:
    """Make a request of those that a deployment makes. Returns why we may not, and why the cluster will not have it.

    The second is empty where it will, and None where we may not, so that it could not be asked.
    """
    try:
        ask()
    except NotAllowed as failed:
        return str(failed).rpartition("; ")[0] or str(failed), None
    except ClusterError as failed:
        return None, str(failed)
    return None, ""


def _config(rest: Rest, name: str) -> Document | None:
    return _allowed(lambda: rest.get(CONFIG_MAPS.path(_SYSTEM, f"config-{name}")))


def _data(config: Document) -> dict[str, str]:
    return {str(key): str(value) for key, value in (config.get("data") or {}).items() if not key.startswith("_")}


def _version(config: Document) -> str | None:
    found = (config["metadata"].get("labels") or {}).get("app.kubernetes.io/version")
    return None if found is None else str(found)


def _node(node: Document) -> Node:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return Node(
        name=node["metadata"]["name"],
        ready=condition(node, "Ready").get("status") == "True" and not spec.get("unschedulable"),
        allocatable=dict(status.get("allocatable") or {}),
        labels=dict(node["metadata"].get("labels") or {}),
    )


def _quotas(rest: Rest) -> tuple[Quota, ...]:
    items: list[Any] = rest.list_all(QUOTAS.path(rest.connection.namespace))["items"]
    return tuple(
        Quota(item["metadata"]["name"], resource, hard, (item["status"].get("used") or {}).get(resource, "0"))
        for item in items
        for resource, hard in ((item.get("status") or {}).get("hard") or {}).items()
    )


def _skew_s(date: str | None, local_s: float) -> float | None:
    """How far this clock is ahead of the server's, to its whole second."""
    if date is None:
        return None
    try:
        return local_s - email.utils.parsedate_to_datetime(date).timestamp() - 0.5
    except ValueError:
        return None
