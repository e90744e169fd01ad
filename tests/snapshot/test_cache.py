"""What goes and what stays, decided without a file."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from snapshot.cache import LEAST_RECENTLY_USED, NO_BUDGET, WITHIN_BUDGET, Choice, Holder, Kind, choose, held_bytes


def holder(
    name: str,
    sizes: dict[int, int],
    last_used: float = 0.0,
    *,
    kind: Kind = "snapshot",
    must_go: str | None = None,
    must_stay: str | None = None,
) -> Holder:
    files = {(0, inode): size for inode, size in sizes.items()}
    return Holder(
        kind=kind,
        path=Path(name),
        name=name,
        last_used=last_used,
        files=files,
        must_go=must_go,
        must_stay=must_stay,
    )


def names(choice: Choice) -> tuple[dict[str, str], dict[str, str]]:
    going = {one.name: reason for one, reason in choice.going}
    return going, {one.name: reason for one, reason in choice.staying}


def test_without_a_budget_only_what_must_goes() -> None:
    holders = [
        holder("a", {1: 10}),
        holder("b", {2: 10}, must_go="died", kind="partial"),
        holder("c", {3: 1}, must_stay="x"),
    ]
    assert names(choose(holders, None)) == ({"b": "died"}, {"c": "x", "a": NO_BUDGET})


def test_the_least_recently_used_goes_first_until_the_rest_fits() -> None:
    holders = [holder("new", {1: 10}, 3), holder("old", {2: 10}, 1), holder("middle", {3: 10}, 2)]
    assert names(choose(holders, 20)) == ({"old": LEAST_RECENTLY_USED}, {"middle": WITHIN_BUDGET, "new": WITHIN_BUDGET})
    assert names(choose(holders, 30))[0] == {}
    assert set(names(choose(holders, 0))[0]) == {"new", "old", "middle"}


def test_what_is_in_use_stays_also_where_the_budget_cannot_be_met() -> None:
    holders = [holder("used", {1: 10}, 1, must_stay="mapped"), holder("free", {2: 10}, 2)]
    assert names(choose(holders, 5)) == ({"free": LEAST_RECENTLY_USED}, {"used": "mapped"})


def test_a_file_that_two_hold_counts_once_and_goes_with_the_last() -> None:
    holders = [holder("old", {1: 100, 2: 1}, 1), holder("new", {1: 100, 3: 1}, 2), holder("other", {4: 10}, 3)]
    assert held_bytes(holders) == 112
    assert names(choose(holders, 112))[0] == {}
    assert set(names(choose(holders, 111))[0]) == {"old"}
    assert set(names(choose(holders, 110))[0]) == {"old", "new"}


def test_what_must_go_frees_its_bytes_first() -> None:
    holders = [holder("left", {1: 50}, must_go="died", kind="leftover"), holder("snapshot", {1: 50, 2: 50}, 1)]
    assert set(names(choose(holders, 100))[0]) == {"left"}


def test_an_unfinished_file_goes_before_any_snapshot() -> None:
    holders = [holder("snapshot", {1: 10}, 1), holder("partial", {2: 10}, 2, kind="partial")]
    assert set(names(choose(holders, 10))[0]) == {"partial"}


HOLDERS = st.lists(
    st.builds(
        holder,
        st.just("x"),
        st.dictionaries(st.integers(0, 8), st.just(7), max_size=4),
        st.floats(0, 10),
        must_go=st.sampled_from([None, None, "go"]),
        must_stay=st.sampled_from([None, None, "stay"]),
    ),
    max_size=8,
)


@given(HOLDERS, st.none() | st.integers(0, 70))
def test_every_choice_is_whole_keeps_what_must_stay_and_meets_the_budget_if_it_can(
    holders: list[Holder], budget_bytes: int | None
) -> None:
    choice = choose(holders, budget_bytes)
    going, staying = ([id(one) for one, _ in part] for part in (choice.going, choice.staying))
    assert sorted(going + staying) == sorted(map(id, holders))
    assert all(id(one) in going for one in holders if one.must_go)
    assert all(id(one) in staying for one in holders if one.must_stay and not one.must_go)
    if budget_bytes is not None:
        kept = [one for one, _ in choice.staying]
        assert held_bytes(kept) <= budget_bytes or all(one.must_stay for one in kept)
        for one, reason in choice.going:
            if reason == LEAST_RECENTLY_USED:
                assert all(other.last_used >= one.last_used for other in kept if not other.must_stay)
