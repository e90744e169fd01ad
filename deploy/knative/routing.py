"""Changes to a service that stands: its traffic, how many instances it may have, its end.

Traffic is written under a field manager of its own, and `deploy.manifest` writes none, so that a deploy leaves it as it
is. Bounds of scaling are part of a revision: Knative reads them from its annotations and takes a change of the template
for a new revision, which is the way it documents. Writing to the revision itself would last until the next change.
"""

from collections.abc import Callable

from deploy.errors import InvalidSpec
from deploy.knative.apply import check_ours, existing, meaning
from deploy.knative.resources import REVISIONS, SERVICE_LABEL, SERVICES, Document
from deploy.knative.rest import Rest
from deploy.knative.retrying import Wait, retried
from deploy.knative.waiting import wait_gone
from deploy.traffic import Plan, checked, from_document, to_document

_SCALING = "autoscaling.knative.dev/"


def set_traffic(rest: Rest, namespace: str, name: str, plan: Callable[[Plan, Document], Plan]) -> Plan:
    """Write the traffic that `plan` makes of the present one and the live service; return it.

    `plan` is called again where somebody else changes the service meanwhile. Tags of revisions that are gone go, too.
    Raises `InvalidSpec` for a revision that the service does not have.
    """
    revisions = rest.list_all(REVISIONS.path(namespace), {"labelSelector": f"{SERVICE_LABEL}={name}"})["items"]
    names = [revision["metadata"]["name"] for revision in revisions]
    written: list[Plan] = []

    def patch(live: Document) -> Document:
        present = from_document(live["spec"].get("traffic"))
        gone = {(share.revision, share.tag) for share in present if share.revision not in (None, *names)}
        wanted = [one for one in plan(present, live) if one.percent or (one.revision, one.tag) not in gone]
        written.append(checked(wanted, names))
        return {"spec": {"traffic": to_document(written[-1])}}

    change(rest, namespace, name, patch, manager="faas-traffic")
    return written[-1]


def scale(
    rest: Rest, namespace: str, name: str, *, min_instances: int | None = None, max_instances: int | None = None
) -> int:
    """Set how many instances there may be (max 0: any number), in a new revision; return the generation it has."""

    def patch(live: Document) -> Document:
        annotations = live["spec"]["template"].get("metadata", {}).get("annotations", {})
        least = _bound("min_instances", min_instances, annotations.get(f"{_SCALING}min-scale"))
        most = _bound("max_instances", max_instances, annotations.get(f"{_SCALING}max-scale"))
        if most and least > most:
            raise InvalidSpec(
                "scaling.min_instances", least, f"is above max_instances={most}", "lower it or raise that"
            )
        bounds: Document = {f"{_SCALING}min-scale": str(least), f"{_SCALING}max-scale": str(most)}
        start = annotations.get(f"{_SCALING}activation-scale")
        if start is not None and (least > int(start) or 0 < most < int(start)):
            bounds[f"{_SCALING}activation-scale"] = None  # Knative refuses one outside the bounds
        return {"spec": {"template": {"metadata": {"name": None, "annotations": bounds}}}}

    return int(change(rest, namespace, name, patch, manager="faas-scale")["metadata"].get("generation") or 0)


def delete(rest: Rest, namespace: str, name: str, *, timeout_s: float) -> None:
    """Delete the service with all that Knative made of it, and wait until it is gone; `Missing` where there is none."""
    live = existing(rest, namespace, name)
    check_ours(live, name, namespace)
    options = {"propagationPolicy": "Foreground", "preconditions": {"uid": live["metadata"]["uid"]}}
    rest.delete(SERVICES.path(namespace, name), options)
    wait_gone(rest, namespace, name, timeout_s=timeout_s)


def change(
    rest: Rest,
    namespace: str,
    name: str,
    patch: Callable[[Document], Document],
    *,
    manager: str,
    wait: Wait | None = None,
) -> Document:
    """Merge what `patch` makes of the live service into it, held to the version that was read; again on a conflict."""
    path = SERVICES.path(namespace, name)

    def attempt() -> Document:
        live = existing(rest, namespace, name)
        check_ours(live, name, namespace)
        body = patch(live)
        if meaning(_merged(live, body)) == meaning(live):
            return live
        body = {**body, "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}}
        rest.merge(path, body, {"fieldManager": manager, "dryRun": "All"})
        return rest.merge(path, body, {"fieldManager": manager})

    return retried(attempt, wait)


def _bound(option: str, wanted: int | None, present: str | None) -> int:
    if wanted is None:
        return int(present or 0)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 0:
        raise InvalidSpec(f"scaling.{option}", wanted, "is not a number of instances", "give a whole number, 0 or more")
    return wanted


def _merged(live: Document, patch: Document) -> Document:
    """RFC 7396: what a merge patch makes of a document."""
    found = dict(live)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            inner = found.get(key)
            found[key] = _merged(inner if isinstance(inner, dict) else {}, value)
        else:
            found[key] = value
    return found
