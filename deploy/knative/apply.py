"""Create or change a service by server-side apply, so that what others wrote to it stays.

Each try reads the live object, asks for a dry run, and only then writes; all three hold on to one resource version, so
that two deploys at once cannot undo each other unseen. A dry run that would change nothing ends it there.
"""

import copy
import time
from dataclasses import dataclass
from typing import Any, Literal

from deploy.errors import Conflict, Missing, NotOurs
from deploy.knative.progress import has_failed
from deploy.knative.resources import COMPONENT, MANAGED_BY, OURS, SERVICES, SERVING, Document, label
from deploy.knative.rest import Rest
from deploy.knative.retrying import MAX_TRIES, Wait, retried
from deploy.knative.waiting import wait_gone

FIELD_MANAGER = "faas"
_DELETION_S = 120.0
_ATTEMPT = "faas/attempt"  # counts the revisions that were made of one description, since the ones before failed
_BOOKKEEPING = (f"{SERVING}/creator", f"{SERVING}/lastModifier")


@dataclass(frozen=True)
class Overridden:
    """A field that another program had set and this deploy set again."""

    manager: str
    field: str


@dataclass(frozen=True)
class Applied:
    """What an apply did, or as a dry run would do. `document` is the object as the API server has it then."""

    action: Literal["created", "changed", "unchanged"]
    name: str
    namespace: str
    generation: int
    overridden: tuple[Overridden, ...]
    document: Document


def apply(
    rest: Rest,
    document: Document,
    *,
    dry_run: bool = False,
    take_over: bool = False,
    deletion_timeout_s: float = _DELETION_S,
    wait: Wait | None = None,
) -> Applied:
    """Bring the service in the cluster to `document`; nothing is sent but a dry run where it is there already.

    A service that is so, and whose revision has failed, gets another: what it failed of may have been mended.
    Fields of ours that another program has set meanwhile are set again, and named in the result; fields that
    `document` does not have stay. A service that faas did not make is refused with `NotOurs`, unless `take_over`. One
    that is being deleted is awaited. Raises `Refused` with the flag or field where the cluster will not have it, and
    `Conflict` once somebody else has been faster too many times.
    """
    namespace, name = document["metadata"]["namespace"], document["metadata"]["name"]
    deadline = time.monotonic() + deletion_timeout_s

    def attempt() -> Applied:
        live = await_standing(rest, namespace, name, deadline)
        check_ours(live, name, namespace, take_over=take_over)
        _check_kind(live, document)
        return _try(rest, document, live, dry_run=dry_run)

    try:
        return retried(attempt, wait)
    except Conflict as conflict:
        raise Conflict(
            f"service {name} in {namespace} was changed by somebody else during each of {MAX_TRIES} tries (the last: "
            f"{conflict}); see who with: kubectl get ksvc {name} -n {namespace} -o yaml --show-managed-fields",
            status=conflict.status,
            reason=conflict.reason,
            causes=conflict.causes,
        ) from conflict


def existing(rest: Rest, namespace: str, name: str) -> Document:
    """The live service; raises `Missing`, with where to look, where there is none."""
    try:
        return rest.get(SERVICES.path(namespace, name))
    except Missing as missing:
        text = f"there is no service {name} in {namespace}; see those there are with: faas list"
        raise Missing(text, status=missing.status, reason=missing.reason) from missing


def await_standing(rest: Rest, namespace: str, name: str, deadline: float) -> Document | None:
    """The live service, None where there is none; one that is being deleted is awaited until it is gone."""
    while True:
        try:
            live = rest.get(SERVICES.path(namespace, name))
        except Missing:
            return None
        if not live["metadata"].get("deletionTimestamp"):
            return live
        wait_gone(rest, namespace, name, timeout_s=max(0.1, deadline - time.monotonic()))


def check_ours(
    live: Document | None, name: str, namespace: str, *, take_over: bool = False, kind: str = "ksvc"
) -> None:
    """Raise `NotOurs` for an object that something else made."""
    if live is None or take_over or label(live, MANAGED_BY) == OURS[MANAGED_BY]:
        return
    made_by = label(live, MANAGED_BY) or "something else"
    raise NotOurs(
        f"{kind} {name} in {namespace} was made by {made_by}; choose another name or namespace, or, to have faas take "
        f"it over, run: kubectl label {kind} {name} -n {namespace} --overwrite {MANAGED_BY}=faas"
    )


def _check_kind(live: Document | None, document: Document) -> None:
    """Raise `NotOurs` where a function would take the place of a pool, or a pool that of a function."""
    if live is None:
        return
    name, namespace = live["metadata"]["name"], live["metadata"]["namespace"]
    there, wanted = (label(one, COMPONENT) or "function" for one in (live, document))
    if there != wanted:
        command = "delete" if there == "function" else f"{there} delete"
        raise NotOurs(
            f"{name} in {namespace} is a {there}, whose place a {wanted} of that name would take; choose another name, "
            f"or delete the {there} first: faas {command} {name}"
        )


def _try(rest: Rest, document: Document, live: Document | None, *, dry_run: bool) -> Applied:
    path = SERVICES.path(document["metadata"]["namespace"], document["metadata"]["name"])
    body = _body(document, live)
    planned, overridden = _dry_run(rest, path, body)
    action: Literal["created", "changed", "unchanged"] = "created"
    if live is not None:
        action = "unchanged" if meaning(planned) == meaning(live) else "changed"
        if action == "unchanged" and has_failed(live):
            annotations = body["spec"]["template"]["metadata"]["annotations"]
            annotations[_ATTEMPT] = str(int(annotations.get(_ATTEMPT, "1")) + 1)
            (planned, overridden), action = _dry_run(rest, path, body), "changed"
    if not dry_run and action != "unchanged":
        query: dict[str, str | bool] = {"fieldManager": FIELD_MANAGER}
        planned = rest.apply(path, body, {**query, "force": True} if overridden else query)
    found = live if action == "unchanged" and live is not None else planned
    metadata = found["metadata"]
    generation = int(metadata.get("generation") or 1)
    return Applied(action, metadata["name"], metadata["namespace"], generation, overridden, found)


def _body(document: Document, live: Document | None) -> Document:
    """What is sent: held to the version that was read, and never with the name of a revision.

    A name that another tool gave the template would be refused with any change. It belongs to that tool, so leaving it
    out would leave it in; an empty one takes its place.
    """
    body = copy.deepcopy(document)
    if live is None:
        return body
    body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
    before, metadata = live["spec"].get("template", {}).get("metadata", {}), body["spec"]["template"]["metadata"]
    if "name" in before:
        metadata["name"] = ""
    if (attempt := (before.get("annotations") or {}).get(_ATTEMPT)) is not None:
        metadata["annotations"] = {**metadata.get("annotations", {}), _ATTEMPT: attempt}
    return body


def _dry_run(rest: Rest, path: str, body: Document) -> tuple[Document, tuple[Overridden, ...]]:
    """What the API server and its webhooks make of `body`, and whose fields it takes."""
    query: dict[str, str | bool] = {"fieldManager": FIELD_MANAGER, "dryRun": "All"}
    try:
        return rest.apply(path, body, query), ()
    except Conflict as conflict:
        held = [cause for cause in conflict.causes if cause.get("reason") == "FieldManagerConflict"]
        if not held or "resourceVersion" not in body["metadata"]:  # made meanwhile: whose it is, is to be looked at
            raise
    overridden = tuple(Overridden(_manager(cause.get("message", "")), cause.get("field", "")) for cause in held)
    return rest.apply(path, body, {**query, "force": True}), overridden


def _manager(message: str) -> str:
    """The name in `conflict with "kubectl-edit" using ...`."""
    return message.split('"')[1] if message.count('"') >= 2 else "another program"


def meaning(service: Document) -> Any:
    """What of a service is somebody's will: all but status, versions, owners and the notes of Knative's webhook."""
    metadata, spec = service["metadata"], copy.deepcopy(service["spec"])
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _BOOKKEEPING}
    of_template = spec.get("template", {}).get("metadata", {})
    of_template.pop("name", None)
    of_template.pop("creationTimestamp", None)
    return metadata.get("labels") or {}, annotations, spec
