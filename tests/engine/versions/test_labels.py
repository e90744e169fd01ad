from __future__ import annotations

import pytest

from faas.engine.versions.admission import Room, Verdict
from faas.engine.versions.labels import check, default, follow
from faas.errors import BadLabel


def test_l15_word_characters_only():
    assert check("stable_2") == "stable_2"
    for label in ("", "a-b", "a b", "é", "a/b"):
        with pytest.raises(BadLabel, match="is no label"):
            check(label)


def test_l15_a_label_in_use_moves_once_its_version_is_available_and_a_new_one_leads_nowhere_till_then():
    assert follow({"stable": 1}, {"stable": 2}, {1}) == {"stable": 1}
    assert follow({"stable": 1}, {"stable": 2}, {1, 2}) == {"stable": 2}
    assert follow({}, {"stable": 2}, {1}) == {}
    assert follow({"stable": 1}, {"stable": 2}, set()) == {}
    assert follow({"stable": 1, "old": 1}, {"stable": 1}, {1}) == {"stable": 1}


def test_the_default_is_where_stable_leads_or_the_highest():
    assert default({}, {}, {1, 2}, None) == 2
    assert default({"stable": 1}, {"stable": 1}, {1, 2}, 2) == 1
    assert default({}, {}, set(), 1) is None


def test_while_the_version_of_stable_is_not_ready_the_default_stays():
    assert default({"stable": 3}, {}, {1, 2}, 2) == 2
    assert default({"stable": 3}, {}, {1, 2}, None) is None
    assert default({"stable": 3}, {}, {1}, 2) is None


def test_l12_two_that_do_not_fit_together_come_one_after_the_other():
    room = Room(10)
    assert room.reserve(1, 6, under_way=False) is Verdict.GRANTED
    assert room.reserve(2, 6, under_way=True) is Verdict.WAIT
    room.release(1)
    assert room.reserve(2, 6, under_way=False) is Verdict.GRANTED
    assert room.reserved_bytes == 6


def test_l12_one_that_can_never_fit_is_refused_and_a_smaller_one_is_not():
    room = Room(10)
    assert room.reserve(1, 11, under_way=True) is Verdict.EXHAUSTED
    assert room.reserve(2, 6, under_way=False) is Verdict.GRANTED
    assert room.reserve(3, 6, under_way=False) is Verdict.EXHAUSTED
    room.release(9)
    assert room.reserve(4, 4, under_way=False) is Verdict.GRANTED


def test_l12_without_a_limit_there_is_room():
    assert Room().reserve(1, 10**15, under_way=False) is Verdict.GRANTED
