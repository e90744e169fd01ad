import pytest

from benchmarks.scheduling import device
from benchmarks.scheduling.device import Queue
from benchmarks.scheduling.published import TABLE
from benchmarks.scheduling.rules import RULES, Aimd, Clockwork, DeadlineOrder, RoundRobin, Shepherd, Timeout0
from benchmarks.scheduling.trials import Result, measure
from benchmarks.scheduling.workloads import WORKLOADS, Arrivals, Model, Workload

ONE = Workload("one", (Model(1, 5, 50),), (1.0,))
TWO = Workload("two", (Model(1, 5, 50), Model(1, 5, 200)), (0.5, 0.5))


def share_in_time(rule, *arrivals, workload=ONE):
    return device.run(workload, rule(workload), [list(moments) for moments in arrivals])


def test_capacities_are_the_published_ones():
    assert [round(workload.capacity) for workload in WORKLOADS] == [800, 800, 900, 900, 822]


def test_arrivals_come_at_the_rate_asked_for_and_are_the_same_for_a_seed():
    workload = WORKLOADS[4]
    once, again, other = (Arrivals(workload, seed, 20_000).at(1000, 15.0) for seed in (1, 1, 2))
    assert once == again != other
    assert sum(map(len, once)) == pytest.approx(15_000, rel=0.05)
    for moments, weight in zip(once, workload.weights, strict=True):
        assert moments == sorted(moments)
        assert len(moments) == pytest.approx(15_000 * weight, rel=0.15)
    with pytest.raises(ValueError, match="too few"):
        Arrivals(workload, 1, 100).at(1000, 15.0)


def test_one_call_alone_is_in_time_under_every_rule():
    for rule in RULES.values():
        assert device.run(ONE, rule(ONE), [[0.5]]) == 1.0


def test_who_waits_for_a_batch_and_is_then_too_late_has_missed():
    # The first runs alone for 6 ms, and then batches of 20 for 25 ms each: after one of them the 50 ms are over.
    assert share_in_time(Timeout0, [0.0] + [0.001] * 100) == pytest.approx(21 / 101)


def test_a_run_ends_once_too_many_have_missed():
    arrivals = [[0.0] + [0.001] * 100 + [1.0]]
    assert device.run(ONE, Timeout0(ONE), arrivals, most_missed=5) <= 1 - 6 / 102


def test_ours_gives_up_the_first_to_serve_full_batches_in_time():
    # 44 ms are left when the device is free: for 39 in one batch, and for none in a second.
    assert share_in_time(DeadlineOrder, [0.0] + [0.0001] * 100) == pytest.approx(39 / 101, abs=2 / 101)


def test_ours_serves_the_tighter_promise_first():
    tight, loose = [0.0] * 20, [0.0] * 60
    assert share_in_time(DeadlineOrder, tight, loose, workload=TWO) == 1.0
    assert share_in_time(RoundRobin, loose, tight, workload=Workload("two", TWO.models[::-1], (0.5, 0.5))) < 1.0


def test_aimd_grows_by_one_and_drops_those_who_are_late():
    queue = Queue(ONE.models[0], [0.0] * 100)
    queue.end = 100
    rule, sizes = Aimd(ONE), []
    for _ in range(5):
        _, size = rule.pick([queue], 0.0)
        sizes.append(size)
        queue.first += size
    assert sizes == [1, 2, 3, 4, 5]
    assert rule.pick([queue], 0.2) is None
    assert queue.missed == 85


def test_round_robin_takes_turns():
    queues = [Queue(Model(1, 5, 100), [0.0] * 10, number) for number in range(3)]
    for queue in queues:
        queue.end = 10
    rule, turns = RoundRobin(TWO), []
    for _ in range(6):
        queue, _ = rule.pick([one for one in queues if len(one)], 0.0)
        queue.first += 1
        turns.append(queues.index(queue))
    assert turns == [0, 1, 2, 0, 1, 2]


def test_clockwork_runs_sizes_that_enough_can_still_wait_for():
    queue = Queue(ONE.models[0], [0.0] * 13)
    queue.end = 13
    assert Clockwork(ONE).pick([queue], 0.0) == (queue, 8)
    assert Clockwork(ONE).pick([queue], 0.042) == (queue, 2)


def test_shepherd_breaks_off_for_a_batch_three_times_as_large():
    rule = Shepherd(ONE)
    queue = Queue(ONE.models[0], [0.0, 0.001, 0.002, 0.003, 0.004])
    queue.end = 1
    assert rule.breaks_off((queue, 1), [queue], 0.0) == 0.003
    assert rule.breaks_off((queue, 2), [queue], 0.0) is None


def test_the_median_is_of_each_figure():
    results = [Result(1.0, (0.5, 0.1)), Result(3.0, (0.7, 0.2)), Result(2.0, (0.6, 0.9))]
    assert Result.median(results) == Result(2.0, (0.6, 0.2))


def test_on_one_model_ours_is_where_the_published_table_has_it():
    for number in (0, 1):
        found, published = measure(RULES["ours"], WORKLOADS[number], seed=0), TABLE[number]["ours"]
        assert found.rate == pytest.approx(published.rate, rel=0.08)
        assert found.goodput == pytest.approx(published.goodput, rel=0.08)


def test_under_overload_ours_holds_where_batches_of_all_that_waits_collapse():
    workload = WORKLOADS[3]
    arrivals = Arrivals(workload, 1, 20_000).at(1.2 * workload.capacity, 5.0)
    assert device.run(workload, DeadlineOrder(workload), arrivals) >= 0.60
    assert device.run(workload, Timeout0(workload), arrivals) <= 0.25
