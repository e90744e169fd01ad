"""How people name revisions, and the traffic that they mean by it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from deploy.errors import InvalidSpec
from deploy.knative.services import Detail
from deploy.traffic import LATEST, Plan, Share, checked, everything_to


def revision(text: str, detail: Detail) -> str | None:
    """Return the revision that is meant by its name, its number, a tag, or `latest` (None).

    Raises:
        InvalidSpec: none is, or several are.
    """
    if text == LATEST:
        return None
    found = [
        one.name
        for one in detail.revisions
        if text in (one.name, str(one.number), *one.tags) or (len(text) >= 5 and one.name.endswith(text))
    ]
    if len(set(found)) == 1:
        return found[0]
    names = ", ".join(f"{one.name} ({one.number})" for one in detail.revisions) or "none"
    what = "is not a revision of this service" if not found else "is more than one of its revisions"
    raise InvalidSpec("traffic.revision", text, what, f"it has {names}")


def changed(detail: Detail, percents: Mapping[str, int], tags: Mapping[str, str | None]) -> Plan:
    """Return the traffic with these percentages, where there are any, and these tags; a tag of None goes.

    Raises:
        InvalidSpec: a revision is not there, or the percentages do not sum to 100.
    """
    tags_there = [one.tag for one in detail.traffic if one.tag is not None]
    for tag, text in tags.items():
        if text is None and tag not in tags_there:
            raise InvalidSpec(
                "traffic.tag", tag, "is no tag of this service", f"it has {', '.join(tags_there) or 'none'}"
            )
    there = (None, *(one.name for one in detail.revisions))
    tagged = [one for one in detail.traffic if one.tag is not None and one.tag not in tags and one.revision in there]
    kept = [Share(one.revision, 0, one.tag) for one in tagged]
    shares = [Share(revision(text, detail), percent) for text, percent in percents.items()]
    if not percents:
        shares = [Share(one.revision, one.percent) for one in detail.traffic if one.percent]
    named = [Share(revision(text, detail), 0, tag) for tag, text in tags.items() if text is not None]
    return checked((*shares, *kept, *named), [one.name for one in detail.revisions])


def all_to(text: str, detail: Detail) -> Plan:
    """Return the traffic with all calls for one revision. Raises InvalidSpec."""
    return everything_to(detail.traffic, revision(text, detail))
