"""Where requests go: shares of revisions, tags, and the moves that people make with them. Pure.

Knative routes by whole percentages that sum to 100. A share without a revision follows the latest ready one; a tag
gives a revision a host of its own, with or without a share.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.errors import InvalidSpec

CANDIDATE = "candidate"  # the tag of a revision on trial; `deploy.names` leaves room for it in hosts
LATEST = "latest"

_TAG = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_MAX_TAG_LENGTH = len(CANDIDATE)


@dataclass(frozen=True)
class Share:
    """`percent` of the requests for `revision` (None: the latest ready one, whichever that is)."""

    revision: str | None
    percent: int = 0
    tag: str | None = None


Plan = tuple[Share, ...]
EVERYTHING_LATEST: Plan = (Share(None, 100),)


def checked(plan: Iterable[Share], revisions: Iterable[str] | None = None) -> Plan:
    """`plan`, once it is one that Knative takes; with `revisions`, each that it names must be among them."""
    shares = tuple(plan)
    for share in shares:
        if isinstance(share.percent, bool) or not isinstance(share.percent, int) or not 0 <= share.percent <= 100:
            raise InvalidSpec("traffic", share.percent, "is not a percentage", "give a whole number of 0 to 100")
        if share.tag is not None and (not _TAG.fullmatch(share.tag) or len(share.tag) > _MAX_TAG_LENGTH):
            remedy = f"use a-z, 0-9 and hyphens, a letter first, at most {_MAX_TAG_LENGTH}"
            raise InvalidSpec("traffic.tag", share.tag, "cannot be part of a host", remedy)
    total = sum(share.percent for share in shares)
    if total != 100:
        raise InvalidSpec("traffic", total, "is the sum of the percentages", "have them sum to 100")
    tags = [share.tag for share in shares if share.tag is not None]
    if twice := sorted({tag for tag in tags if tags.count(tag) > 1}):
        raise InvalidSpec("traffic.tag", twice[0], "is given twice", "give each revision a tag of its own")
    known = None if revisions is None else set(revisions)
    for share in shares:
        if known is not None and share.revision is not None and share.revision not in known:
            have = ", ".join(sorted(known)) or "none"
            raise InvalidSpec("traffic.revision", share.revision, "is not a revision of this service", f"it has {have}")
    return shares


def parse(words: Sequence[str]) -> Plan:
    """`('hello-00001=90', 'latest=10:candidate')` as a plan: revision, percentage, and a tag where there is one."""
    shares = []
    for word in words:
        revision, equals, rest = word.partition("=")
        percent, colon, tag = rest.partition(":")
        if not revision or not equals or not percent.removesuffix("%").isdigit():
            remedy = "write REVISION=PERCENT or REVISION=PERCENT:TAG, such as latest=10:candidate"
            raise InvalidSpec("traffic", word, "is not a share", remedy)
        shares.append(
            Share(None if revision == LATEST else revision, int(percent.removesuffix("%")), tag if colon else None)
        )
    return checked(shares)


def shares_of(plan: Plan, latest: str | None) -> dict[str, int]:
    """The percentage of each revision that has one, the latest by its name."""
    found: dict[str, int] = {}
    for share in plan:
        revision = share.revision or latest
        if share.percent and revision is not None:
            found[revision] = found.get(revision, 0) + share.percent
    return found


def leader(plan: Plan, latest: str | None) -> str | None:
    """The revision with the largest share: the stable one of a canary. The first of equals."""
    shares = shares_of(plan, latest)
    return max(shares, key=lambda revision: shares[revision], default=None)


def pinned(plan: Plan, latest: str | None) -> Plan:
    """`plan` with the latest revision by its name, so that a revision to come gets nothing by itself."""
    return checked(Share(share.revision or latest, share.percent, share.tag) for share in plan)


def canary(plan: Plan, *, stable: str, candidate: str, percent: int) -> Plan:
    """`percent` of the requests for `candidate`, tagged as such, the rest for `stable`; other tags stay."""
    if isinstance(percent, bool) or not isinstance(percent, int) or not 1 <= percent <= 99:
        raise InvalidSpec("canary", percent, "is not a share for a trial", "give a whole number of 1 to 99")
    if stable == candidate:
        raise InvalidSpec("canary", candidate, "has all the traffic already", "deploy a change first")
    kept = tuple(
        Share(share.revision, 0, share.tag)
        for share in plan
        if share.tag not in (None, CANDIDATE) and share.revision is not None
    )
    return checked((Share(stable, 100 - percent), Share(candidate, percent, CANDIDATE), *kept))


def everything_to(plan: Plan, revision: str | None) -> Plan:
    """All requests for `revision` (None: the latest, now and in future); the trial's tag goes, others stay."""
    kept = tuple(
        Share(share.revision, 0, share.tag)
        for share in plan
        if share.tag not in (None, CANDIDATE) and share.revision is not None
    )
    return checked((Share(revision, 100), *kept))


def rollback_target(plan: Plan, *, ready: Sequence[str], latest: str | None) -> str:
    """The revision to go back to. `ready` lists the service's ready revisions, the newest first.

    During a trial that is the stable one; otherwise the newest that is older than the one with the traffic.
    """
    shares = shares_of(plan, latest)
    stable = leader(plan, latest)
    if len(shares) > 1 and stable is not None:
        return stable
    older = list(ready)
    if stable in older:
        older = older[older.index(stable) + 1 :]
    if not older or stable is None:
        what = "the service" if stable is None else stable
        raise InvalidSpec("", what, "has no ready revision before it", "deploy one, or name one: --to REV")
    return older[0]


def to_document(plan: Plan) -> list[dict[str, Any]]:
    """`plan` as the `spec.traffic` of a service."""
    found = []
    for share in plan:
        entry: dict[str, Any] = {"latestRevision": share.revision is None, "percent": share.percent}
        if share.revision is not None:
            entry["revisionName"] = share.revision
        if share.tag is not None:
            entry["tag"] = share.tag
        found.append(entry)
    return found


def from_document(traffic: Sequence[Mapping[str, Any]] | None) -> Plan:
    """The plan in a service's `spec.traffic`; where there is none all goes to the latest."""
    if not traffic:
        return EVERYTHING_LATEST
    return tuple(
        Share(
            None if entry.get("latestRevision") else entry.get("revisionName"),
            int(entry.get("percent") or 0),
            entry.get("tag"),
        )
        for entry in traffic
    )
