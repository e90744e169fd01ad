from __future__ import annotations

from dataclasses import replace

import pytest

from deploy import InvalidSpec
from deploy.knative.services import Detail, Revision, Service
from deploy.traffic import Share
from faas.deployment import shares
from faas.deployment.rollout import tagged

OLD, NEW = Share("embed-00001", 90), Share("embed-00002", 10, "candidate")


def revision(number: int, *tags: str) -> Revision:
    return Revision(f"embed-{number:05d}", number, "i", "", True, "", "", 0, tags, 0, 0, 3, 16)


DETAIL = Detail(
    service=Service("embed", "embed", "default", None, True, "", "embed-00002", "i", 0, ""),
    conditions=(),
    traffic=(OLD, NEW, Share("embed-00001", 0, "old")),
    urls=(),
    revisions=(revision(2, "candidate"), revision(1, "old")),
    instances=(),
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("latest", None),
        ("embed-00001", "embed-00001"),
        ("1", "embed-00001"),
        ("00001", "embed-00001"),
        ("old", "embed-00001"),
        ("candidate", "embed-00002"),
    ],
)
def test_a_revision_has_several_names(text: str, meant: str | None) -> None:
    assert shares.revision(text, DETAIL) == meant


@pytest.mark.parametrize("text", ["3", "embed", "0001", "new"])
def test_what_is_none_is_said_with_those_there_are(text: str) -> None:
    with pytest.raises(InvalidSpec, match=r"it has embed-00002 \(2\), embed-00001 \(1\)"):
        shares.revision(text, DETAIL)


def test_new_percentages_keep_the_tags() -> None:
    plan = shares.changed(DETAIL, {"1": 50, "latest": 50}, {})
    assert plan == (
        Share("embed-00001", 50),
        Share(None, 50),
        Share("embed-00002", 0, "candidate"),
        Share("embed-00001", 0, "old"),
    )


def test_tags_alone_leave_the_percentages() -> None:
    plan = shares.changed(DETAIL, {}, {"candidate": None, "next": "2"})
    assert plan == (
        Share("embed-00001", 90),
        Share("embed-00002", 10),
        Share("embed-00001", 0, "old"),
        Share("embed-00002", 0, "next"),
    )


def test_a_tag_of_a_revision_that_is_gone_is_dropped() -> None:
    with_gone = replace(DETAIL, traffic=(*DETAIL.traffic, Share("embed-00000", 0, "gone")))
    assert shares.changed(with_gone, {}, {"next": "2"}) == shares.changed(DETAIL, {}, {"next": "2"})


def test_percentages_that_do_not_sum_to_100_are_refused() -> None:
    with pytest.raises(InvalidSpec, match="sum to 100"):
        shares.changed(DETAIL, {"1": 50}, {})


def test_all_to_one_ends_the_trial() -> None:
    assert shares.all_to("2", DETAIL) == (Share("embed-00002", 100), Share("embed-00001", 0, "old"))


def test_a_tag_goes_to_one_revision_alone() -> None:
    plan = tagged((Share(None, 100), Share("embed-00001", 0, "next")), "embed-00002", "next")
    assert plan == (Share(None, 100), Share("embed-00002", 0, "next"))
    assert tagged((Share("embed-00001", 100, "next"),), "embed-00002", "next") == (
        Share("embed-00001", 100),
        Share("embed-00002", 0, "next"),
    )
