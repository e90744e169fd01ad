import pytest

from faas.platform.demand import Counts
from faas.platform.instances import Instance, State
from faas.platform.page import history as module
from faas.platform.page.history import NUM_SAMPLES, NUM_STARTS, History, Sample, Series


def sample(at_s, *, ready=0, requests=0):
    return Sample(at_s, 0, ready, 0, 0, 0, requests, 0)


def test_a_series_keeps_what_changed_once_a_second():
    series = Series()
    assert series.note(sample(10))
    assert not series.note(sample(11))
    assert series.note(sample(12, ready=1))
    assert series.note(sample(12, ready=2))
    assert series.since(0) == [sample(10), sample(12, ready=2)]


def test_a_series_tells_what_held_at_the_beginning_too():
    series = Series()
    for at_s in (10, 20, 30):
        series.note(sample(at_s, ready=at_s))
    assert series.since(20) == [sample(10, ready=10), sample(20, ready=20), sample(30, ready=30)]
    assert series.since(25) == [sample(20, ready=20), sample(30, ready=30)]
    assert series.since(99) == [sample(30, ready=30)]
    assert Series().since(0) == []


@pytest.mark.parametrize("extra", [0, 1, NUM_SAMPLES - 1, NUM_SAMPLES + 7])
def test_a_series_is_bounded(extra):
    series = Series()
    num = NUM_SAMPLES + extra
    for at_s in range(num):
        series.note(sample(at_s, requests=at_s))
        series.note(sample(at_s, requests=at_s + 1))
    assert series.since(0) == [sample(at_s, requests=at_s + 1) for at_s in range(num - NUM_SAMPLES, num)]
    assert len(series._rows) == NUM_SAMPLES * 32


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Loop:
    """As much of a control loop as is looked at."""

    def __init__(self, *instances, held=0, current=0, requests=0):
        self.instances = list(instances)
        self.capacity = self
        self.num_held = held
        self.concurrency = self
        self.current = current
        self.counts = Counts(requests=requests)


def made(number, state=State.READY, ready_at=None, ordered_at=0.0):
    return Instance(f"f-{number}", "f", "r", "", ordered_at, state=state, ready_at=ready_at, phases={"fork": 0.01})


def test_a_function_is_the_sum_of_its_revisions_and_its_past():
    history = History(Clock())
    one = Loop(made(1, ready_at=90.0), made(2, State.STARTING), held=2, current=3, requests=10)
    other = Loop(made(3, State.DRAINING, ready_at=50.0), current=1, requests=5)
    history.observe("f", [one, other], Counts(requests=100, failed=7))
    assert history.samples("f", 0) == [Sample(100, 1, 1, 1, 2, 4, 115, 7)]
    assert history.samples("g", 0) == []


def test_each_start_is_remembered_once_and_the_latest_comes_first():
    history = History(Clock())
    loop = Loop(made(1, ready_at=91.0, ordered_at=90.0), made(2, State.STARTING))
    for _ in range(2):
        history.observe("f", [loop], Counts())
    loop.instances = [made(3, ready_at=93.0), made(2, ready_at=92.0)]
    history.observe("f", [loop], Counts())
    assert [start.instance for start in history.starts("f")] == ["f-3", "f-2", "f-1"]
    assert history.starts("f")[-1].total_s == 1.0
    loop.instances = [made(n, ready_at=100.0 + n) for n in range(100)]
    history.observe("f", [loop], Counts())
    assert [start.instance for start in history.starts("f")] == [f"f-{n}" for n in range(99, 99 - NUM_STARTS, -1)]


def test_who_watches_is_told_of_changes_alone():
    clock, history = Clock(), History(Clock())
    history.clock = clock
    with history.watch() as event:
        history.observe("f", [Loop()], Counts())
        assert event.is_set()
        event.clear()
        clock.now = 101.0
        history.observe("f", [Loop()], Counts())
        assert not event.is_set()
        history.observe("f", [Loop(current=1)], Counts())
        assert event.is_set()
    assert history.num_watchers == 0


def test_functions_that_have_done_nothing_for_longest_are_forgotten(monkeypatch):
    monkeypatch.setattr(module, "NUM_FUNCTIONS", 2)
    history = History(Clock())
    for name in ("a", "b", "a", "c"):
        history.observe(name, [Loop(requests=1)], Counts())
    assert [bool(history.samples(name, 0)) for name in "abc"] == [True, False, True]
