"""Shares of traffic and the moves people make with them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy import InvalidSpec
from deploy.traffic import (
    EVERYTHING_LATEST,
    Plan,
    Share,
    canary,
    checked,
    everything_to,
    from_document,
    leader,
    parse,
    pinned,
    rollback_target,
    shares_of,
    to_document,
)

from .properties import unhurried

A, B, C = "hello-00001", "hello-00002", "hello-00003"
TRIAL: Plan = (Share(A, 90), Share(B, 10, "candidate"))


def test_words_become_shares() -> None:
    assert parse([f"{A}=90", "latest=10%:candidate"]) == (Share(A, 90), Share(None, 10, "candidate"))


@pytest.mark.parametrize(
    "word", [A, f"{A}=", f"{A}=ten", "=100", f"{A}=-1", f"{A}=100:", f"{A}=100:Cap", f"{A}=100:toolong4us"]
)
def test_words_that_are_no_shares(word: str) -> None:
    with pytest.raises(InvalidSpec, match="traffic"):
        parse([word])


@pytest.mark.parametrize(
    ("plan", "part"),
    [
        ((Share(A, 60), Share(B, 60)), "traffic=120 is the sum"),
        ((), "traffic=0 is the sum"),
        ((Share(A, 101), Share(B, -1)), "is not a percentage"),
        ((Share(A, True), Share(B, 99)), "is not a percentage"),
        ((Share(A, 50, "x"), Share(B, 50, "x")), "is given twice"),
        ((Share(C, 100),), f"it has {A}, {B}"),
    ],
)
def test_plans_that_knative_would_refuse(plan: Plan, part: str) -> None:
    with pytest.raises(InvalidSpec) as raised:
        checked(plan, [A, B])
    assert part in str(raised.value)


def test_a_canary_leaves_the_rest_to_the_stable_one_and_keeps_other_tags() -> None:
    before: Plan = (Share(None, 100), Share(A, 0, "old"), Share(A, 0, "candidate"), Share(None, 0, "next"))
    assert canary(before, stable=A, candidate=B, percent=10) == (*TRIAL, Share(A, 0, "old"))
    assert everything_to(TRIAL, None) == EVERYTHING_LATEST
    assert everything_to((*TRIAL, Share(A, 0, "old")), B) == (Share(B, 100), Share(A, 0, "old"))


@pytest.mark.parametrize("percent", [0, 100, -1, True, 1.5])
def test_a_canary_of_all_or_nothing_is_none(percent: Any) -> None:
    with pytest.raises(InvalidSpec, match="1 to 99"):
        canary(EVERYTHING_LATEST, stable=A, candidate=B, percent=percent)
    with pytest.raises(InvalidSpec, match="all the traffic already"):
        canary(EVERYTHING_LATEST, stable=A, candidate=A, percent=10)


def test_who_has_the_traffic() -> None:
    assert shares_of((Share(None, 50), Share(A, 30), Share(B, 20)), B) == {B: 70, A: 30}
    assert leader((Share(None, 40), Share(A, 60)), B) == A
    assert leader(EVERYTHING_LATEST, None) is None
    assert pinned(EVERYTHING_LATEST, B) == (Share(B, 100),)


def test_where_a_rollback_goes() -> None:
    newest_first = [C, B, A]
    assert rollback_target(EVERYTHING_LATEST, ready=newest_first, latest=C) == B
    assert rollback_target((Share(B, 100),), ready=newest_first, latest=C) == A
    assert rollback_target(TRIAL, ready=newest_first, latest=B) == A
    # The latest failed: the one before the one that has the traffic, not that one itself.
    assert rollback_target(EVERYTHING_LATEST, ready=[B, A], latest=B) == A
    for plan, ready, latest in ((EVERYTHING_LATEST, [A], A), (EVERYTHING_LATEST, [], None)):
        with pytest.raises(InvalidSpec, match="no ready revision before it"):
            rollback_target(plan, ready=ready, latest=latest)


def test_a_service_without_traffic_goes_to_the_latest() -> None:
    assert from_document(None) == from_document([]) == EVERYTHING_LATEST


@unhurried
@given(cut=st.integers(0, 100), tag=st.one_of(st.none(), st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)))
def test_a_document_reads_back_as_the_plan(cut: int, tag: str | None) -> None:
    plan = checked((Share(A, cut, tag), Share(None, 100 - cut)))
    assert from_document(to_document(plan)) == plan
    assert sum(entry["percent"] for entry in to_document(plan)) == 100
