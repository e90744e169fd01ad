import pytest

from benchmarks.measures.cold_start import Start, median_ms, median_phases_ms, woken
from loadgen.sample import Outcome, Sample


def test_each_phase_has_its_median_and_so_has_what_no_phase_accounts_for():
    starts = [
        Start(10.0, {"fork": 1.0, "thaw": 5.0}),
        Start(30.0, {"fork": 3.0, "thaw": 6.0}),
        Start(20.0, {"fork": 2.0, "thaw": 4.0, "warmup": 3.0}),
    ]
    assert median_ms(starts) == 20.0
    assert median_phases_ms(starts) == pytest.approx({"fork": 2.0, "thaw": 5.0, "warmup": 0.0, "the rest": 11.0})


def test_of_the_time_held_only_what_was_no_phase_stands_beside_the_phases():
    told = (("queue", 0.5), ("exec", 14.0), ("fork", 3.0), ("thaw", 25.0), ("warmup", 12.0), ("activate", 46.0))
    sample = Sample(
        planned_at=99.0, sent_at=100.0, done_at=100.062, outcome=Outcome.OK, status=200, cold=True, phases_ms=told
    )
    start = woken(sample)
    assert start.total_ms == pytest.approx(62.0)
    assert list(start.phases_ms) == ["fork", "thaw", "warmup", "held besides", "queue", "exec"]
    assert start.phases_ms["held besides"] == pytest.approx(6.0)
    assert start.rest_ms == pytest.approx(1.5)
