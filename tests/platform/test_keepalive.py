import pytest

from faas.platform.keepalive import IdleTimes, KeepAlive, plan, variation


def known(*idle_s, **options):
    times = IdleTimes(**options)
    for one in idle_s:
        times = times.observe(one)
    return times


def test_idle_times_are_counted_by_bin_and_those_past_the_range_apart():
    times = known(10, 59.9, 60, 150, 4 * 3600, 5 * 3600)
    assert times.counts[:4] == (2, 1, 1, 0)
    assert (times.num_within, times.num_beyond, times.range_s) == (4, 2, 4 * 3600)
    assert times.recent_s == (10, 59.9, 60, 150, 4 * 3600, 5 * 3600)
    assert len(known(*range(20, 40)).recent_s) == 8


def test_gaps_within_a_burst_are_no_idle_times_and_hide_no_pause():
    assert known(0, 1, 9.99) == IdleTimes()
    kept = plan(known(*[*[0.1] * 500, 605] * 20))
    assert kept == plan(known(*[605] * 20))


def test_what_is_a_burst_may_be_another_time():
    times = known(0.5, 2, 3, burst_s=1.0, bin_s=1.0)
    assert times.num_within == 2
    kept = plan(times)
    assert kept.burst_s == 1.0
    assert kept.wants_warm(0.9)
    assert not kept.wants_warm(1.1)
    assert kept.next_change_s(0.5) == 1.0


def test_without_a_pattern_it_is_kept_for_the_whole_range():
    assert plan(IdleTimes()) == KeepAlive(0.0, 4 * 3600)
    assert plan(known(120)) == KeepAlive(0.0, 4 * 3600)
    even = known(*(bin_index * 60 + 11 for bin_index in range(240)))
    assert variation(even.counts) == 0
    assert plan(even) == KeepAlive(0.0, 4 * 3600)


def test_a_pattern_lets_it_go_and_warms_it_just_before_its_usual_return():
    kept = plan(known(*[605] * 20))  # always in the eleventh minute
    assert kept == KeepAlive(pytest.approx(0.9 * 600), pytest.approx(1.1 * 660))
    assert kept.wants_warm(9.9), "the burst may go on"
    assert not kept.wants_warm(10)
    assert not kept.wants_warm(539)
    assert kept.wants_warm(540.1)
    assert kept.wants_warm(725)
    assert not kept.wants_warm(727)


def test_the_head_is_the_5th_and_the_tail_the_99th_percentile():
    kept = plan(known(*[30] * 4, *[300] * 94, *[1200] * 2))  # 4 % at once; 2 % after twenty minutes
    assert kept == KeepAlive(pytest.approx(0.9 * 300), pytest.approx(1.1 * 1260))
    assert plan(known(*[30] * 5, *[300] * 95)).prewarm_s == 0


def test_what_mostly_returns_beyond_the_range_is_forecast():
    kept = plan(known(60, 5 * 3600, 6 * 3600, 7 * 3600))
    assert kept == KeepAlive(pytest.approx(0.85 * 5.5 * 3600), pytest.approx(1.15 * 5.5 * 3600))


@pytest.mark.parametrize(
    ("kept", "idle_s", "change_s"),
    [
        (KeepAlive(0.0, 60.0), 10.0, 60.0),
        (KeepAlive(0.0, 60.0), 60.0, None),
        (KeepAlive(30.0, 60.0), 0.0, 10.0),
        (KeepAlive(30.0, 60.0), 10.0, 30.0),
        (KeepAlive(30.0, 60.0), 30.0, 60.0),
    ],
)
def test_when_to_look_again(kept, idle_s, change_s):
    assert kept.next_change_s(idle_s) == change_s


def test_no_idle_times_have_no_percentile():
    from faas.platform.keepalive import _bin_of

    with pytest.raises(ValueError, match="no idle times"):
        _bin_of((0, 0), 0.5)
