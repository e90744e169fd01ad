"""The trace that is made has the statistics that it is made from."""

import statistics
from itertools import pairwise

import pytest

from benchmarks import traces
from benchmarks.traces import App
from faas.platform import trace

DAY_S = 86_400.0


def test_it_is_the_same_each_time_and_another_with_another_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        traces.write(tmp_path / name, num_apps=5, duration_s=DAY_S, seed=seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()


def test_it_is_in_the_format_and_in_the_order_of_ends(tmp_path):
    path = tmp_path / "t.csv"
    traces.write(path, num_apps=5, duration_s=DAY_S, seed=1)
    assert path.read_text().splitlines()[0] == "app,func,end_timestamp,duration"
    ends = [float(line.split(",")[2]) for line in path.read_text().splitlines()[1:]]
    assert ends == sorted(ends)
    assert len(trace.read(path).calls) <= 5


def test_rates_variations_and_durations_are_distributed_as_published():
    made = traces.apps(4000, duration_s=DAY_S, seed=7)
    calls = [DAY_S / app.mean_s for app in made]
    for limit, share in traces.CALLS_A_DAY[1:]:
        expected = (share - 0.20) / (0.81 - 0.20)
        assert statistics.fmean(rate <= limit * 1.0001 for rate in calls) == pytest.approx(expected, abs=0.03)
    for limit, share in traces.VARIATIONS[:-1]:
        assert statistics.fmean(app.variation <= limit for app in made) == pytest.approx(share, abs=0.03)
    assert statistics.fmean(app.duration_s < 60.0 for app in made) == pytest.approx(0.97, abs=0.01)
    assert statistics.median(app.duration_s for app in made) == pytest.approx(0.684, rel=0.15)  # e ** -0.38


@pytest.mark.parametrize("variation", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_gaps_have_the_mean_and_variation_that_was_asked_for(variation):
    app = App("a", mean_s=60.0, variation=variation, duration_s=1.0)
    at_s = list(traces.arrivals(app, duration_s=60.0 * 60_000, seed=3))
    gaps = [after - before for before, after in pairwise(at_s)]
    assert statistics.fmean(gaps) == pytest.approx(60.0, rel=0.05)
    assert statistics.stdev(gaps) / statistics.fmean(gaps) == pytest.approx(variation, abs=0.05 + 0.1 * variation)
