from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faas.engine.isolation import Failed, max_reruns, out_of_memory, reruns


def follow(
    items: Sequence[int], raises: Callable[[Sequence[int]], BaseException | None]
) -> tuple[list[Failed[int]], list[list[int]]]:
    """Carry the plan out; returns who failed, and the runs after the first."""
    error = raises(items)
    assert error is not None
    plan, ran = reruns(items, error), []
    try:
        tried = next(plan)
        while True:
            ran.append(list(tried))
            tried = plan.send(raises(tried))
    except StopIteration as end:
        return end.value, ran


def fault_in(*bad: int) -> Callable[[Sequence[int]], BaseException | None]:
    def raises(items: Sequence[int]) -> BaseException | None:
        found = [item for item in items if item in bad]
        return ValueError(f"bad {found}") if found else None

    return raises


@pytest.mark.parametrize("num", [2, 3, 4, 8, 31, 32, 33, 100, 1024])
def test_one_bad_item_fails_alone_wherever_it_is(num: int) -> None:
    for bad in {0, 1, num // 2, num - 1}:
        failed, ran = follow(range(num), fault_in(bad))
        assert [list(some.items) for some in failed] == [[bad]]
        assert str(failed[0].error) == f"bad [{bad}]"
        assert len(ran) <= 2 * math.ceil(math.log2(num))


def test_two_bad_items_of_eight_both_fail_alone() -> None:
    for first in range(8):
        for second in range(first + 1, 8):
            failed, _ = follow(range(8), fault_in(first, second))
            assert sorted(list(some.items) for some in failed) == [[first], [second]]


def test_a_right_half_is_not_run_whole_where_the_left_went_well() -> None:
    _, ran = follow(range(8), fault_in(7))
    assert ran == [[0, 1, 2, 3], [4, 5], [6], [7]]


@given(st.integers(1, 200).flatmap(lambda num: st.tuples(st.just(num), st.sets(st.integers(0, num - 1), min_size=1))))
def test_reruns_are_bounded_the_good_never_fail_alone_and_nobody_is_forgotten(case: tuple[int, set[int]]) -> None:
    num, bad = case
    raises = fault_in(*bad)
    failed, ran = follow(range(num), raises)
    assert len(ran) <= max_reruns(num)
    lost = [item for some in failed for item in some.items]
    assert len(lost) == len(set(lost))
    well = {item for group in ran if raises(group) is None for item in group}
    assert well | set(lost) == set(range(num))
    assert not well & set(lost)
    assert all(some.items[0] in bad for some in failed if some.num_together == 1)
    assert all(some.num_together >= len(some.items) for some in failed)


def test_a_batch_of_one_is_not_run_again() -> None:
    failed, ran = follow([5], fault_in(5))
    assert (ran, [list(some.items) for some in failed]) == ([], [[5]])


def test_when_all_are_bad_the_reruns_end() -> None:
    failed, ran = follow(range(32), fault_in(*range(32)))
    assert len(ran) == max_reruns(32)
    assert sorted(item for some in failed for item in some.items) == list(range(32))


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


@pytest.mark.parametrize("error", [MemoryError(), OutOfMemoryError("CUDA out of memory")])
def test_out_of_memory_halves_once(error: BaseException) -> None:
    assert out_of_memory(error)
    failed, ran = follow(range(8), lambda items: error if len(items) > 4 else None)
    assert (failed, ran) == ([], [[0, 1, 2, 3], [4, 5, 6, 7]])
    failed, ran = follow(range(8), lambda items: error if len(items) > 2 else None)
    assert ran == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [list(some.items) for some in failed] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_bad_item_in_a_half_that_fits_is_still_found() -> None:
    def raises(items: Sequence[int]) -> BaseException | None:
        return MemoryError() if len(items) > 4 else fault_in(6)(items)

    failed, _ = follow(range(8), raises)
    assert [list(some.items) for some in failed] == [[6]]


def test_the_bound_is_as_stated() -> None:
    assert [max_reruns(num) for num in (1, 2, 8, 32, 33)] == [0, 6, 10, 14, 16]
