import pytest

from benchmarks.measures.cold_start import Start, median_ms, median_phases_ms


def test_each_phase_has_its_median_and_so_has_what_no_phase_accounts_for():
    starts = [
        Start(10.0, {"fork": 1.0, "thaw": 5.0}),
        Start(30.0, {"fork": 3.0, "thaw": 6.0}),
        Start(20.0, {"fork": 2.0, "thaw": 4.0, "warmup": 3.0}),
    ]
    assert median_ms(starts) == 20.0
    assert median_phases_ms(starts) == pytest.approx({"fork": 2.0, "thaw": 5.0, "warmup": 0.0, "the rest": 11.0})
