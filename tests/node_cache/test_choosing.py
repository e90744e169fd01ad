from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from faas.node_cache.choosing import Choice, choose, lacking_bytes
from tests.deploy.properties import unhurried


def test_files_that_are_shared_count_once() -> None:
    pinned = {"a": {"base": 60, "a": 10}, "b": {"base": 60, "b": 10}}
    assert choose(pinned, [], 80) == Choice(("a", "b"), ())
    assert choose(pinned, [], 79) == Choice(("a",), ("b",))


def test_a_pin_that_is_added_drives_out_none_that_is_held() -> None:
    pinned = {"large": {"x": 90}, "small": {"y": 20}}
    assert choose(pinned, [], 100) == Choice(("small",), ("large",))
    assert choose(pinned, ["large"], 100) == Choice(("large",), ("small",))


def test_what_is_there_need_not_be_fetched() -> None:
    assert lacking_bytes({"a": 1, "b": 2, "c": 4}, {"b", "x"}) == 5


sizes = st.dictionaries(st.sampled_from("uvwxyz"), st.integers(0, 9), max_size=4)


@unhurried
@given(st.dictionaries(st.sampled_from("abcdef"), sizes), st.sets(st.sampled_from("abcdef")), st.integers(0, 40))
def test_what_is_kept_fits_and_nobody_is_forgotten(
    pinned: dict[str, dict[str, int]], held: set[str], budget_bytes: int
) -> None:
    chosen = choose(pinned, held, budget_bytes)
    together: dict[str, int] = {}
    for name in chosen.kept:
        together |= pinned[name]
    assert sum(together.values()) <= budget_bytes
    assert sorted((*chosen.kept, *chosen.too_large)) == sorted(pinned)
