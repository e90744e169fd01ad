"""The revisions of one function and how its calls are shared among them: pure changes of one record, and the choice.

A function's first revision gets all calls. A later one takes them over, or waits for its share (`--no-traffic`), or is
reached by a tag alone. What has a share or a tag is live; the rest is kept so that it can be rolled back to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from faas import names
from faas.errors import PlatformError
from faas.preparation import Preparation

MAX_KEPT = 10
"""Revisions of a function that are kept; live ones are kept beyond it."""
LATEST = "latest"
PERCENT = 100
_STRIDE = 61
"""Coprime to 100 and next to 100 / golden ratio: each 100 calls split exactly, and calls to one share lie far apart."""
_TAG = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")


class UnknownRevision(PlatformError):
    """A function has no revision, or no tag, of that name."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """One revision: the `number`th of its function, deployed at `deployed_at` (Unix seconds).

    `has_served` tells whether it ever had a share of the calls, so that a rollback does not go to what was only tried.
    """

    number: int
    preparation: Preparation
    deployed_at: float
    has_served: bool = False

    @property
    def id(self) -> str:
        """The revision's id, as answers carry it."""
        return self.preparation.revision


class Share(msgspec.Struct, frozen=True):
    """The percentage of a function's calls that one revision gets."""

    revision: str
    percent: int


class Revisions(msgspec.Struct, frozen=True, kw_only=True):
    """All that a platform remembers of one function.

    `deployments` are in the order of their numbers. `traffic` adds up to 100, or is empty where no revision gets calls
    that carry no tag. `tags` leads from tags to ids. `bundle` names the bundle that it came with, where it did.
    """

    name: str
    deployments: tuple[Deployment, ...] = ()
    traffic: tuple[Share, ...] = ()
    tags: dict[str, str] = {}
    bundle: str | None = None

    @property
    def latest(self) -> Deployment | None:
        """The one that was deployed last."""
        return self.deployments[-1] if self.deployments else None

    @property
    def live(self) -> tuple[Deployment, ...]:
        """Those that have a share of the calls or a tag."""
        reached = {share.revision for share in self.traffic} | set(self.tags.values())
        return tuple(one for one in self.deployments if one.id in reached)

    def find(self, revision: str) -> Deployment | None:
        """Return the one with this id."""
        return next((one for one in self.deployments if one.id == revision), None)

    def percent(self, revision: str) -> int:
        """Return the share of one of them."""
        return next((share.percent for share in self.traffic if share.revision == revision), 0)

    def tags_of(self, revision: str) -> list[str]:
        """Return the tags that lead to one of them."""
        return sorted(tag for tag, tagged in self.tags.items() if tagged == revision)


def deploy(found: Revisions, preparation: Preparation, now: float) -> Revisions:
    """Add a revision that gets no calls yet. One that is there already becomes none anew.

    `now` is in Unix seconds.
    """
    if found.find(preparation.revision) is not None:
        return found
    number = found.latest.number + 1 if found.latest is not None else 1
    new = Deployment(number=number, preparation=preparation, deployed_at=now)
    return msgspec.structs.replace(found, deployments=(*found.deployments, new))


def share(found: Revisions, percents: Mapping[str, int]) -> Revisions:
    """Share the calls by whole percents, by id.

    Raises:
        PlatformError: they do not add up to 100, or one is out of range.
    """
    for revision, percent in percents.items():
        if not 0 <= percent <= PERCENT:
            raise PlatformError(f"{revision}={percent}: a share is between 0 and {PERCENT} percent")
    total = sum(percents.values())
    if total != PERCENT:
        raise PlatformError(f"the shares add up to {total} percent; they must to {PERCENT}")
    traffic = tuple(Share(revision, percent) for revision, percent in percents.items() if percent)
    serving = {one.revision for one in traffic}
    deployments = tuple(
        msgspec.structs.replace(one, has_served=True) if one.id in serving else one for one in found.deployments
    )
    return msgspec.structs.replace(found, traffic=traffic, deployments=deployments)


def tag(found: Revisions, tags: Mapping[str, str | None]) -> Revisions:
    """Have tags lead to revisions, by id; None takes a tag away.

    Raises:
        PlatformError: a tag cannot be part of a host name, or one to be taken away is none.
    """
    after = dict(found.tags)
    for name, revision in tags.items():
        if revision is not None:
            if _TAG.fullmatch(name) is None:
                raise PlatformError(f"tag {name!r}: use 1 to 32 small letters, digits and dashes, a letter first")
            after[name] = revision
        elif after.pop(name, None) is None:
            raise UnknownRevision(f"{found.name} has no tag {name!r}; it has: {', '.join(sorted(after)) or 'none'}")
    return msgspec.structs.replace(found, tags=after)


def with_preparation(found: Revisions, preparation: Preparation) -> Revisions:
    """Have the revision of a preparation remember it in place of the one it had."""
    deployments = tuple(
        msgspec.structs.replace(one, preparation=preparation) if one.id == preparation.revision else one
        for one in found.deployments
    )
    return msgspec.structs.replace(found, deployments=deployments)


def renamed(found: Revisions, ids: Sequence[str]) -> Revisions:
    """Have shares and tags lead to the ids that revisions have now; `ids` are those that they had, in order.

    An id comes of all that is known of a function, which the next version of faas may know more of. What leads to no
    revision is left out, and its calls go to the others.
    """
    now = dict(zip(ids, (one.id for one in found.deployments), strict=False))
    traffic = tuple(Share(now.get(one.revision, one.revision), one.percent) for one in found.traffic)
    tags = {name: now.get(revision, revision) for name, revision in found.tags.items()}
    reached = {one.revision for one in traffic} | set(tags.values())
    after = msgspec.structs.replace(found, traffic=traffic, tags=tags)
    return without(after, reached - {one.id for one in found.deployments})


def resolve(found: Revisions, text: str) -> str:
    """Return the id of the revision that a user names: by id or its beginning, by number, by tag, or as `latest`.

    Raises:
        UnknownRevision: there is none, or several.
    """
    if text == LATEST and found.latest is not None:
        return found.latest.id
    if text in found.tags:
        return found.tags[text]
    meant = [one.id for one in found.deployments if one.id == text or str(one.number) == text]
    meant = meant or [one.id for one in found.deployments if text and one.id.startswith(text)]
    if len(meant) == 1:
        return meant[0]
    fault = f"several revisions begin with {text!r}" if meant else f"no revision {text!r}"
    near = "" if meant else names.suggestion(text, [*found.tags, LATEST])
    known = ", ".join(f"{one.id} ({one.number})" for one in found.deployments) or "none"
    raise UnknownRevision(f"{found.name} has {fault}{near}; it has: {known}")


def roll_back(found: Revisions, to: str | None = None) -> Revisions:
    """Give all calls to the revision that served before those that do now, or to the one that is named, by id.

    Raises:
        PlatformError: there is none before.
    """
    if to is None:
        newest = max((one.number for one in found.deployments if found.percent(one.id)), default=0)
        before = [one for one in found.deployments if one.has_served and one.number < newest]
        if not before:
            raise PlatformError(f"no revision of {found.name} that has served is older than the one that serves now")
        to = before[-1].id
    return share(found, {to: PERCENT})


def without(found: Revisions, gone: Iterable[str]) -> Revisions:
    """Leave revisions out, by id. Their calls go to those that share calls with them, else to the newest that served.

    Nothing is live afterwards that was only kept, unless no other has served.
    """
    left_out = set(gone)
    deployments = tuple(one for one in found.deployments if one.id not in left_out)
    tags = {name: revision for name, revision in found.tags.items() if revision not in left_out}
    after = msgspec.structs.replace(found, deployments=deployments, tags=tags)
    shares = [one for one in found.traffic if one.revision not in left_out]
    if len(shares) == len(found.traffic):
        return after
    if shares:
        return share(after, dict(zip((one.revision for one in shares), _rescaled(shares), strict=True)))
    served = [one for one in deployments if one.has_served]
    if served:
        return share(after, {served[-1].id: PERCENT})
    return msgspec.structs.replace(after, traffic=())


def _rescaled(shares: Sequence[Share]) -> list[int]:
    """Return the percents in proportion, adding up to 100: the largest remainders are rounded up."""
    total = sum(one.percent for one in shares)
    exact = [one.percent * PERCENT / total for one in shares]
    whole = [int(value) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    for i in by_remainder[: PERCENT - sum(whole)]:
        whole[i] += 1
    return whole


def trimmed(found: Revisions, keep: int = MAX_KEPT) -> Revisions:
    """Leave out the oldest of those that are not live, as many as are over `keep`."""
    live = {one.id for one in found.live}
    spare = [one.id for one in found.deployments if one.id not in live and one is not found.latest]
    return without(found, spare[: max(0, len(found.deployments) - keep)])


def choose(percents: Sequence[int], num_calls: int) -> int:
    """Return which of the shares the call after `num_calls` others goes to, as an index.

    The calls' places among 100 are a permutation with a stride: of any 100 calls in a row each share gets exactly its
    percentage, and of fewer about as much.
    """
    place = num_calls * _STRIDE % PERCENT
    for index, percent in enumerate(percents):
        place -= percent
        if place < 0:
            return index
    raise ValueError(f"{percents} do not add up to {PERCENT}")
