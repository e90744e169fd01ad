from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faas.errors import PlatformError
from faas.platform import revisions as rules
from faas.platform.revisions import Revisions
from faas.preparation import Origin, Preparation
from tests.platform.test_loop import description


def preparation(version):
    origin = Origin(python="3", sources={"/app.py": version}, distributions={})
    return Preparation(description=description(), origin=origin, siblings=("f",), imports=())


def deployed(*versions):
    found = Revisions(name="f")
    for number, version in enumerate(versions):
        found = rules.deploy(found, preparation(version), float(number))
    return found


def ids(found):
    return [one.id for one in found.deployments]


def all_to(found, number):
    return rules.share(found, {ids(found)[number - 1]: 100})


def test_revisions_are_numbered_and_an_unchanged_one_is_none_anew():
    found = deployed("a", "b")
    assert [(one.number, one.deployed_at) for one in found.deployments] == [(1, 0.0), (2, 1.0)]
    assert rules.deploy(found, preparation("a"), 9.0) is found
    assert found.live == ()
    assert found.latest.number == 2


def test_shares_must_add_up():
    found = deployed("a", "b")
    one, two = ids(found)
    assert rules.share(found, {one: 90, two: 10}).percent(two) == 10
    assert rules.share(found, {one: 100, two: 0}).percent(two) == 0
    for wrong in ({one: 90}, {one: 90, two: 20}, {one: 110, two: -10}, {}):
        with pytest.raises(PlatformError):
            rules.share(found, wrong)


def test_a_rollback_goes_to_what_served_before_and_then_further():
    found = all_to(all_to(deployed("a", "b", "tried", "d"), 1), 2)
    found = all_to(found, 4)
    back = rules.roll_back(found)
    assert back.percent(ids(found)[1]) == 100
    further = rules.roll_back(back)
    assert further.percent(ids(found)[0]) == 100
    with pytest.raises(PlatformError, match="older"):
        rules.roll_back(further)
    assert rules.roll_back(further, ids(found)[2]).percent(ids(found)[2]) == 100


def test_a_rollback_from_a_canary_gives_all_to_the_other():
    found = all_to(deployed("a", "b"), 1)
    one, two = ids(found)
    split = rules.share(found, {one: 90, two: 10})
    assert rules.roll_back(split).traffic == all_to(found, 1).traffic


def test_tags_lead_to_revisions_and_can_be_taken_away():
    found = deployed("a", "b")
    tagged = rules.tag(found, {"next": ids(found)[1]})
    assert [one.number for one in tagged.live] == [2]
    assert tagged.tags_of(ids(found)[1]) == ["next"]
    assert rules.tag(tagged, {"next": None}).tags == {}
    with pytest.raises(PlatformError, match="no tag 'nxt'"):
        rules.tag(tagged, {"nxt": None})
    for wrong in ("", "Next", "a b", "-a", "a-", "1a", "x" * 33):
        with pytest.raises(PlatformError, match="tag"):
            rules.tag(found, {wrong: ids(found)[0]})


def test_a_revision_is_named_by_id_beginning_number_tag_or_as_the_latest():
    found = rules.tag(deployed("a", "b"), {})
    one, two = ids(found)
    found = rules.tag(found, {"old": one})
    for text, meant in ((one, one), (one[:5], one), ("1", one), ("old", one), ("2", two), ("latest", two)):
        assert rules.resolve(found, text) == meant, text
    for text in ("", "nothing", "1000"):
        with pytest.raises(PlatformError, match="no revision"):
            rules.resolve(found, text)
    with pytest.raises(PlatformError, match="did you mean 'latest'"):
        rules.resolve(found, "lastest")


def test_what_is_gone_leaves_its_calls_to_those_that_shared_them():
    found = deployed("a", "b", "c")
    one, two, three = ids(found)
    split = rules.share(found, {one: 50, two: 30, three: 20})
    left = rules.without(split, [one])
    assert (left.percent(two), left.percent(three)) == (60, 40)
    assert rules.without(split, [one, two]).percent(three) == 100


def test_what_is_gone_leaves_all_calls_to_the_newest_that_served():
    found = all_to(all_to(deployed("a", "b", "tried"), 1), 2)
    one, two, three = ids(found)
    assert rules.without(found, [two]).percent(one) == 100
    assert rules.without(found, [one, two]).traffic == ()
    tagged = rules.tag(found, {"t": three})
    assert rules.without(tagged, [three]).tags == {}
    assert rules.without(tagged, []).traffic == tagged.traffic


def test_old_revisions_are_left_out_and_live_ones_never():
    found = all_to(rules.tag(deployed(*"abcdefgh"), {"t": ids(deployed("a", "b"))[1]}), 1)
    kept = rules.trimmed(found, keep=4)
    assert [one.number for one in kept.deployments] == [1, 2, 7, 8]
    assert rules.trimmed(found, keep=8) == found
    assert [one.number for one in rules.trimmed(found, keep=1).deployments] == [1, 2, 8]


def test_a_preparation_that_learned_is_remembered():
    found = deployed("a", "b")
    learned = preparation("a").importing(("json",))
    assert rules.with_preparation(found, learned).deployments[0].preparation.imports == ("json",)
    assert rules.with_preparation(found, learned).deployments[1] == found.deployments[1]


@st.composite
def shares(draw):
    cuts = sorted(draw(st.lists(st.integers(1, 99), max_size=5, unique=True)))
    return [high - low for low, high in zip([0, *cuts], [*cuts, 100], strict=True)]


@given(shares(), st.integers(0, 10**9))
def test_of_any_hundred_calls_in_a_row_each_share_gets_its_percentage(percents, first):
    counts = Counter(rules.choose(percents, first + i) for i in range(100))
    assert [counts[i] for i in range(len(percents))] == percents


@given(st.integers(1, 99), st.integers(0, 10**6), st.integers(1, 100))
def test_of_fewer_calls_a_share_gets_about_its_percentage(percent, first, num_calls):
    got = sum(rules.choose([percent, 100 - percent], first + i) == 0 for i in range(num_calls))
    assert abs(got - num_calls * percent / 100) < 4


def test_shares_that_do_not_add_up_cannot_be_chosen_from():
    with pytest.raises(ValueError, match="100"):
        [rules.choose([50, 40], i) for i in range(100)]
