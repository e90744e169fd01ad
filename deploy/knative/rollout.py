"""A change on trial: a share of the requests for the new revision, then all of them, or none.

The order matters. Traffic is pinned to the revision that has it before the new one is made; Knative would move all of
it as soon as that is ready. The share moves once it is ready.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from deploy import rollback, traffic
from deploy.errors import ClusterError, InvalidSpec, Missing, NotAllowed
from deploy.knative import metrics, routing
from deploy.knative.apply import existing
from deploy.knative.resources import (
    GENERATION_LABEL,
    REVISIONS,
    SERVICE_LABEL,
    SERVICES,
    Document,
    condition,
    label,
)
from deploy.knative.rest import Rest
from deploy.knative.watching import is_passing
from deploy.rollback import Decision, Limits, Reading
from deploy.traffic import Plan

_LOOK_EVERY_S = 5.0

Read = Callable[[str], Reading]  # from a revision's name
OnDecision = Callable[[Decision], None]


@dataclass(frozen=True)
class Outcome:
    """How a trial ended: `verdict` is the last one, `traffic` what the service has now."""

    verdict: Literal["roll back", "promote", "wait"]
    reason: str
    stable: str
    candidate: str
    traffic: Plan


def pin(rest: Rest, namespace: str, name: str) -> str | None:
    """Hold all shares to the revisions that have them, before a change; None where there is no service yet.

    Returns the stable revision, the one with the largest share.
    """
    try:
        live = rest.get(SERVICES.path(namespace, name))
    except Missing:
        return None
    if _latest(live) is None:
        return None  # nothing was ever ready, so nothing can be pinned
    plan = routing.set_traffic(rest, namespace, name, lambda plan, live: traffic.pinned(plan, _latest(live)))
    return traffic.leader(plan, None)


def start(rest: Rest, namespace: str, name: str, *, percent: int, stable: str | None = None) -> Plan:
    """Give `percent` to the latest ready revision, the rest to `stable` (None: to whichever has most now)."""

    def plan(present: Plan, live: Document) -> Plan:
        candidate = _latest(live)
        base = stable or traffic.leader(traffic.pinned(present, candidate), candidate)
        if candidate is None or base is None:
            raise InvalidSpec("canary", name, "has no ready revision", f"see why with: faas describe {name}")
        return traffic.canary(present, stable=base, candidate=candidate, percent=percent)

    return routing.set_traffic(rest, namespace, name, plan)


def promote(rest: Rest, namespace: str, name: str) -> Plan:
    """All requests for the latest ready revision, and for those to come; nothing is on trial any more."""
    return routing.set_traffic(rest, namespace, name, lambda plan, _: traffic.everything_to(plan, None))


def back(rest: Rest, namespace: str, name: str, to: str | None = None) -> tuple[str, Plan]:
    """All requests for `to`, or for what came before: the stable revision of a trial, else the one before this."""
    service = existing(rest, namespace, name)
    found = rest.list_all(REVISIONS.path(namespace), {"labelSelector": f"{SERVICE_LABEL}={name}"})["items"]
    newest_first = sorted(found, key=_number, reverse=True)
    ready = [r["metadata"]["name"] for r in newest_first if condition(r, "Ready").get("status") == "True"]
    plan = traffic.from_document(service["spec"].get("traffic"))
    target = to or traffic.rollback_target(plan, ready=ready, latest=_latest(service))
    written = routing.set_traffic(rest, namespace, name, lambda now, _: traffic.everything_to(now, target))
    return target, written


def watch(
    rest: Rest,
    namespace: str,
    name: str,
    *,
    limits: Limits,
    read: Read | None = None,
    on_decision: OnDecision = lambda _: None,
    stop: threading.Event | None = None,
    clock: Callable[[], float] = time.monotonic,
    every_s: float = _LOOK_EVERY_S,
) -> Outcome:
    """Watch the trial that is under way and end it: promoted when it has done well, taken back when it has not.

    `read` gives the counts of a revision's instances; without it their `/metrics` are read. `stop` ends the watch and
    leaves traffic as it is, with the verdict `wait`. Raises `InvalidSpec` where nothing is on trial.
    """
    read = read or (lambda revision: metrics.read(rest, namespace, revision))
    stop = stop or threading.Event()
    plan = traffic.from_document(existing(rest, namespace, name)["spec"].get("traffic"))
    stable, candidate = _on_trial(plan, name)
    trial = rollback.begin(clock(), read(candidate), read(stable))
    decision = Decision("wait", "no look was taken")
    while decision.verdict == "wait" and not stop.wait(every_s):
        try:
            readings, failed = (read(candidate), read(stable)), _failure(rest, namespace, candidate)
        except NotAllowed:
            raise
        except ClusterError as passing:
            if not is_passing(passing):
                raise
            continue
        trial, decision = rollback.step(trial, clock(), *readings, limits=limits, failed=failed)
        on_decision(decision)
    if decision.verdict == "promote":
        plan = promote(rest, namespace, name)
    elif decision.verdict == "roll back":
        _, plan = back(rest, namespace, name, stable)
    return Outcome(decision.verdict, decision.reason, stable, candidate, plan)


def _on_trial(plan: Plan, name: str) -> tuple[str, str]:
    """The stable revision and the one on trial."""
    candidate = next((share.revision for share in plan if share.tag == traffic.CANDIDATE), None)
    stable = traffic.leader(tuple(share for share in plan if share.revision != candidate), None)
    if candidate is None or stable is None:
        raise InvalidSpec("", name, "has no revision on trial", "start one with: faas deploy --canary 10")
    return stable, candidate


def _failure(rest: Rest, namespace: str, revision: str) -> str | None:
    """Why a revision cannot run, as Knative says; None while it can."""
    try:
        ready = condition(rest.get(REVISIONS.path(namespace, revision)), "Ready")
    except Missing:
        return "it was deleted"
    if ready.get("status") != "False":
        return None
    return f"{ready.get('reason') or 'Failed'}: {ready.get('message') or 'no reason given'}"


def _latest(service: Document) -> str | None:
    latest: str | None = (service.get("status") or {}).get("latestReadyRevisionName")
    return latest


def _number(revision: Document) -> int:
    return int(label(revision, GENERATION_LABEL) or 0)
