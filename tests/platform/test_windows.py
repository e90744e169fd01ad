import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faas.platform.windows import Averages, LoadWindows, MeanWindow, WeightedWindow


def filled(window: MeanWindow | WeightedWindow, *values: float | None) -> int:
    """Record `values` in the seconds 0, 1, ...; None is a silent second. Return the last second."""
    for second, value in enumerate(values):
        if value is not None:
            window.record(second, value)
    return len(values) - 1


def test_before_the_first_value_there_is_nothing() -> None:
    window = MeanWindow(6)
    assert window.is_silent(0)
    assert window.average(0) == 0.0


def test_a_young_window_divides_by_its_age() -> None:
    window = MeanWindow(60)
    assert window.average(filled(window, 1.0, 2.0, 6.0)) == 3.0


def test_an_average_at_a_second_includes_that_second_and_no_more_than_the_window() -> None:
    window = MeanWindow(3)
    assert window.average(filled(window, 100.0, 1.0, 2.0, 3.0)) == 2.0


def test_a_gap_inside_counts_as_zero() -> None:
    window = MeanWindow(60)
    assert window.average(filled(window, 3.0, None, None, 3.0)) == 1.5


def test_silent_seconds_at_the_end_shorten_the_window() -> None:
    window = MeanWindow(6)
    filled(window, 10.0, 20.0, 30.0)
    assert window.average(4) == 20.0
    assert window.average(6) == 25.0
    assert window.average(7) == 30.0
    assert not window.is_silent(7)


@pytest.mark.parametrize("second", [8, 9, 1000])
def test_a_whole_silent_window_is_silent_and_zero(second: int) -> None:
    window = MeanWindow(6)
    filled(window, 10.0, 20.0, 30.0)
    assert window.is_silent(second)
    assert window.average(second) == 0.0


def test_a_silence_of_the_window_starts_it_anew() -> None:
    window = MeanWindow(6)
    filled(window, 10.0, 20.0, 30.0)
    window.record(8, 4.0)
    window.record(9, 6.0)
    assert window.average(9) == 5.0


def test_a_silence_one_second_shorter_does_not() -> None:
    window = MeanWindow(6)
    filled(window, 10.0, 20.0, 30.0)
    window.record(7, 6.0)
    assert window.average(7) == 6.0  # (30 + 0 + 0 + 0 + 0 + 6) / 6


def test_reporters_of_one_second_add_up() -> None:
    window = MeanWindow(6)
    window.record(3, 1.5)
    window.record(3, 2.0)
    assert window.average(3) == 3.5


def test_a_late_value_counts_while_the_window_holds_its_second() -> None:
    window = MeanWindow(3)
    filled(window, 1.0, 1.0, 1.0, 1.0)
    window.record(1, 3.0)
    window.record(0, 100.0)
    assert window.average(3) == 2.0


def test_a_half_of_the_last_digit_rounds_up() -> None:
    window = MeanWindow(60)
    assert window.average(filled(window, *[0.0] * 15, 0.001)) == 0.000063


def test_the_weighted_average_follows_its_formula() -> None:
    window = WeightedWindow(6)
    a = 1 - 0.0001 ** (1 / 6)
    last = filled(window, 1.0, 2.0, 3.0)
    assert window.average(last) == pytest.approx(a * 3 + a * (1 - a) * 2 + a * (1 - a) ** 2 * 1)


def test_the_smoothing_of_a_long_weighted_window_is_at_least_a_fifth() -> None:
    window = WeightedWindow(60)
    assert window.average(filled(window, 0.0, 10.0)) == pytest.approx(0.2 * 10)


def test_a_silent_weighted_window_is_zero() -> None:
    window = WeightedWindow(6)
    filled(window, 5.0)
    assert window.average(6) == 0.0


def test_a_window_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 s, not 0"):
        MeanWindow(0)


def test_both_windows_are_fed_together() -> None:
    load = LoadWindows(60, 6)
    for second in range(20):
        load.record(second, 1.0 if second < 14 else 4.0)
    assert load.averages(19) == Averages(stable=1.9, panic=4.0)
    assert load.averages(25) == Averages(stable=1.9, panic=0.0)
    assert not load.is_silent(78)
    assert load.is_silent(79)


def test_weighted_windows_are_a_choice() -> None:
    load = LoadWindows(60, 6, weighted=True)
    load.record(0, 10.0)
    assert load.averages(0).stable == pytest.approx(2.0)


@given(
    st.integers(1, 12),
    st.lists(st.one_of(st.none(), st.integers(0, 1000)), min_size=1, max_size=60),
)
def test_the_ring_agrees_with_a_list_of_all_that_was_recorded(window_s: int, values: list[int | None]) -> None:
    window = MeanWindow(window_s)
    recorded: dict[int, int] = {}
    for second, value in enumerate(values):
        if value is not None:
            if recorded and second - max(recorded) >= window_s:
                recorded.clear()
            recorded[second] = value
            window.record(second, value)
        last, first = max(recorded, default=-1), min(recorded, default=0)
        covered = range(max(first, second - window_s + 1), last + 1)
        mean = sum(recorded.get(s, 0) for s in covered) / max(1, len(covered))
        assert window.average(second) == math.floor(mean * 1e6 + 0.5) / 1e6
