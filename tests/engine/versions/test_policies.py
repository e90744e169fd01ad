from __future__ import annotations

import pytest

from faas import Versions
from faas.engine.versions import plan
from faas.engine.versions.plan import Wishes
from faas.engine.versions.policies import choose, named, number_of
from faas.errors import SettingError


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("1", 1),
        ("00001", 1),
        ("0", 0),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("-1", None),
        ("+1", None),
        ("1.0", None),
        (" 1", None),
        ("1_000", None),
        ("٣", None),
        ("", None),
        (".1", None),
        ("1.tmp", None),
        ("versions.json", None),
    ],
)
def test_l1_only_names_that_are_integers_are_versions(name: str, number: int | None):
    assert number_of(name) == number


def test_l1_of_two_names_of_one_version_one_wins_and_the_other_is_warned_of():
    found = named(["00001", "1", "2", "tmp", ".3", "003"])
    assert found.names == {1: "1", 2: "2", 3: "003"}
    assert found.warnings == ("00001 and 1 are both version 1; 1 is used",)


def test_l2_latest_is_the_highest_and_none_is_as_good_as_one():
    assert choose("latest", [1, 3, 2]).numbers == {3}
    assert choose("latest", [1, 3, 2], num=2).numbers == {2, 3}
    assert choose("latest", [1, 3, 2], num=0).numbers == {3}
    assert choose("latest", []).numbers == frozenset()


def test_l2_all():
    assert choose("all", [1, 3, 2]).numbers == {1, 2, 3}


def test_l2_specific_warns_of_what_is_missing_and_serves_the_others():
    chosen = choose("specific", [1, 3], versions=[1, 2])
    assert chosen.numbers == {1}
    assert chosen.warnings == ("the policy names version 2, which is not there",)


def test_l2_specific_without_versions_warns_and_serves_nothing():
    chosen = choose("specific", [1, 3])
    assert chosen.numbers == frozenset()
    assert "names no version" in chosen.warnings[0]


def test_l2_l3_l11_what_is_not_said_is_as_tensorflow_serving_has_it():
    spec = Versions()
    assert (spec.policy, spec.num, spec.transition) == ("latest", 1, "availability")
    assert (spec.poll_s, spec.keep_last) == (1.0, False)
    assert (spec.load_retries, spec.retry_s) == (5, 60.0)


def test_l4_the_file_says_exactly_what_is_held():
    spec = Versions(policy="latest", num=2)
    first = plan.make(spec, plan.read(b'{"policy": "specific", "versions": [1, 2]}'))
    assert plan.aspired(first, [1, 2, 3]).numbers == {1, 2}
    second = plan.make(spec, plan.read(b'{"policy": "specific", "versions": [3]}'))
    assert plan.aspired(second, [1, 2, 3]).numbers == {3}
    third = plan.make(spec, plan.read(None))
    assert plan.aspired(third, [1, 2, 3]).numbers == {2, 3}


def test_l4_another_policy_in_the_file_leaves_the_versions_of_the_code_aside():
    asked = plan.make(Versions(policy="specific", versions=(1,)), plan.read(b'{"policy": "all"}'))
    assert plan.aspired(asked, [1, 2]).numbers == {1, 2}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "truncated"),
        (b'{"labels": {"stable": "two"}}', r"Expected `int`, got `str` - at `\$.labels\[...\]`"),
        (b'{"lables": {}}', "unknown field `lables`"),
        (b'{"format": 2}', "format 2; this version reads 1"),
        (b'{"labels": {"no-label": 1}}', "'no-label' is no label"),
        (b'{"policy": "newest"}', "Invalid enum value 'newest'"),
        (b'{"policy": "all", "versions": [1]}', 'count with policy="specific" alone'),
        (b"\xff", "versions.json"),
    ],
)
def test_l4_a_file_that_says_nothing_sensible_is_refused(content: bytes, said: str):
    with pytest.raises(SettingError, match=said):
        plan.read(content)


def test_what_is_written_is_read_again():
    wishes = Wishes(policy="latest", num=3, labels={"stable": 2}, also=(4,), before=(None, 1), is_loaded=True)
    assert plan.read(plan.write(wishes)) == wishes
    assert plan.read(plan.write(Wishes())) == Wishes()


def test_a_file_that_an_editor_began_with_a_byte_order_mark_is_read():
    assert plan.read(b"\xef\xbb\xbf" + plan.write(Wishes(labels={"stable": 2}))).labels == {"stable": 2}


def test_labels_hold_their_versions_whatever_the_policy_says():
    asked = plan.make(Versions(), Wishes(labels={"stable": 1, "gone": 9}, also=(2,)))
    chosen = plan.aspired(asked, [1, 2, 3, 4])
    assert chosen.numbers == {1, 2, 4}
    assert chosen.warnings == ("the label gone leads to version 9, which is not there",)


@pytest.mark.parametrize("spec", [Versions(mode="explicit"), Versions(poll_s=-1)])
def test_d14_in_explicit_mode_nothing_is_held_that_was_not_asked_for(spec: Versions):
    assert plan.aspired(plan.make(spec, Wishes(labels={"stable": 1})), [1, 2]).numbers == frozenset()
    assert plan.aspired(plan.make(spec, Wishes(is_loaded=True)), [1, 2]).numbers == {2}


def test_a_promotion_remembers_where_stable_led_and_goes_back_there():
    first = plan.labelled(Wishes(), "stable", 1)
    second = plan.labelled(first, "stable", 2)
    assert (second.labels, second.before) == ({"stable": 2}, (None, 1))
    assert plan.labelled(second, "stable", 2).before == (None, 1)
    assert plan.labelled(second, "canary", 3).before == (None, 1)
    back = plan.rolled_back(second)
    assert (back.labels, back.before) == ({"stable": 1}, (None,))
    further = plan.rolled_back(back)
    assert (further.labels, further.before) == ({}, ())
    with pytest.raises(SettingError, match="none to go back to"):
        plan.rolled_back(further)


def test_so_many_promotions_are_remembered():
    wishes = Wishes()
    for number in range(plan.MAX_KEPT + 5):
        wishes = plan.labelled(wishes, "stable", number)
    assert wishes.before == tuple(range(4, plan.MAX_KEPT + 4))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"policy": "newest"}, "policy='newest'"),
        ({"num": -1}, "num=-1"),
        ({"versions": (1,)}, 'count with policy="specific" alone'),
        ({"policy": "specific", "versions": (-1,)}, "a whole number of at least 0"),
        ({"policy": "specific", "versions": "12"}, "must be a list of numbers"),
        ({"source": " "}, "write a folder"),
        ({"source": "gs://bucket/iris"}, "write a folder, or s3://bucket/prefix/NAME"),
        ({"max_bytes": "many"}, "max_bytes"),
        ({"poll_s": float("nan")}, "poll_s"),
        ({"keep_last": 1}, "keep_last"),
    ],
)
def test_settings_that_are_wrong_are_refused(given: dict[str, object], said: str):
    with pytest.raises(SettingError, match=said):
        Versions(**given)


def test_specific_versions_are_put_in_order():
    assert Versions(policy="specific", versions=[3, 1, 3]).versions == (1, 3)
    assert Versions(max_bytes="1Ki").capacity_bytes == 1024
