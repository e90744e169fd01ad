"""A service brought into a cluster and waited for, and the share of the calls that its new revision gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deploy.errors import InvalidSpec
from deploy.traffic import Plan, Share, checked, shares_of

if TYPE_CHECKING:
    from deploy.knative import Cluster
    from deploy.knative.apply import Applied, Overridden
    from deploy.knative.progress import Progress
    from deploy.manifest import Document

Step = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """How a change is brought out: `canary` is the percentage of the calls that it gets for a trial.

    `tag` gives the new revision a host of its own. Without `traffic` it gets no calls but through that.
    """

    canary: int | None = None
    traffic: bool = True
    tag: str | None = None
    wait: bool = True
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if self.canary is not None and not self.traffic:
            raise InvalidSpec("canary", self.canary, "does not go with --no-traffic", "give one of them")
        if not self.wait and (self.canary is not None or self.tag is not None or not self.traffic):
            raise InvalidSpec("wait", False, "leaves no time to share traffic", "leave --no-wait out")
        checked((Share(None, 100, self.tag),))  # a tag that Knative refuses is refused before anything is sent

    @property
    def holds_back(self) -> bool:
        """Whether the new revision is not to get all calls by itself."""
        return self.canary is not None or not self.traffic


@dataclass(frozen=True, kw_only=True)
class Brought:
    """What came of it. `revision` and `url` are None where the service was not waited for.

    `traffic` has the percentage of each revision; `overridden` who had set fields that were set again.
    """

    action: Literal["created", "changed", "unchanged"]
    service: str
    namespace: str
    revision: str | None = None
    url: str | None = None
    traffic: dict[str, int]
    overridden: tuple[str, ...] = ()
    ready_s: float | None = None
    notes: tuple[str, ...] = ()


def bring(cluster: Cluster, document: Document, rollout: Rollout, *, step: Step) -> Brought:
    """Apply a service, wait until it is ready, and share its traffic.

    Calls stay with the revision that has them until the new one is ready; where it does not get ready they stay there.
    Raises ClusterErrors, `NotReady` among them.
    """
    name = document["metadata"]["name"]
    stable = None
    if rollout.holds_back and cluster.apply(document, dry_run=True).action == "changed":
        stable = cluster.pin(name)
    applied = cluster.apply(document)
    step(f"{name} is {applied.action}")
    if not rollout.wait:
        return _brought(applied, traffic={}, notes=(f"{name} was not waited for: faas describe {name} shows it",))
    try:
        ready = cluster.wait_ready(
            name,
            timeout_s=rollout.timeout_s,
            generation=applied.generation,
            on_progress=lambda progress: step(said(name, progress)),
        )
    except KeyboardInterrupt:
        step(f"{name} is no longer waited for, and the cluster goes on with it: faas describe {name} shows it")
        raise
    notes = _share(cluster, name, rollout, revision=ready.revision, stable=stable)
    if ready.generation > applied.generation:
        notes.append(f"somebody else changed {name} while it was waited for, and {ready.revision} is the latest now")
    detail = cluster.describe(name)
    shares = shares_of(detail.traffic, ready.revision)
    if ready.revision not in shares and not rollout.holds_back:
        others = ", ".join(shares)
        notes.append(f"calls stay with {others}, where they were put; faas promote {name} sends them to the new one")
    return _brought(
        applied, revision=ready.revision, url=ready.url, traffic=shares, ready_s=ready.waited_s, notes=tuple(notes)
    )


def said(name: str, progress: Progress) -> str:
    """Return how far a service is, in words."""
    what = f"{name}: {progress.stage}"
    return f"{what}, {progress.message}" if progress.message else what


def tagged(plan: Plan, revision: str, tag: str) -> Plan:
    """Return a plan in which `revision` alone has a tag."""
    others = (Share(one.revision, one.percent, None if one.tag == tag else one.tag) for one in plan)
    kept = tuple(one for one in others if one.percent or one.tag is not None)
    return checked((*kept, Share(revision, 0, tag)))


def _share(cluster: Cluster, name: str, rollout: Rollout, *, revision: str, stable: str | None) -> list[str]:
    """Give the new revision the share and the tag that it is to have; return what to say."""
    notes = []
    if rollout.holds_back and stable is None:
        notes.append(
            "nothing has changed, so nothing is held back" if rollout.canary is None else _no_trial(cluster, name)
        )
    elif rollout.canary is not None:
        cluster.start_canary(name, percent=rollout.canary, stable=stable)
    if rollout.tag is not None:
        cluster.set_traffic(name, tagged(cluster.describe(name).traffic, revision, rollout.tag))
    return notes


def _no_trial(cluster: Cluster, name: str) -> str:
    if len(cluster.describe(name).revisions) < 2:
        return "there is no revision to compare with yet, so this one has all calls"
    return "nothing has changed, so nothing is on trial"


def _brought(
    applied: Applied,
    *,
    revision: str | None = None,
    url: str | None = None,
    traffic: dict[str, int],
    ready_s: float | None = None,
    notes: tuple[str, ...] = (),
) -> Brought:
    return Brought(
        action=applied.action,
        service=applied.name,
        namespace=applied.namespace,
        revision=revision,
        url=url,
        traffic=traffic,
        overridden=tuple(map(_overridden, applied.overridden)),
        ready_s=ready_s,
        notes=notes,
    )


def _overridden(found: Overridden) -> str:
    """Return who had set what, in words: an annotation by its last part, such as min-scale."""
    what = found.field.rpartition("/")[2] if ".annotations." in found.field else found.field.lstrip(".")
    return f"{found.manager.replace('faas-scale', 'faas scale')} had set {what}, and it is set back"
