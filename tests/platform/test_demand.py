import math

from faas.platform.demand import Concurrency, Counts, Rate


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_concurrency_is_weighted_by_time() -> None:
    clock = FakeClock()
    concurrency = Concurrency(clock)
    concurrency.enter()
    clock.now_s += 0.25
    concurrency.enter()
    clock.now_s += 0.5
    concurrency.leave()
    clock.now_s += 0.25
    assert concurrency.report() == 0.25 * 1 + 0.5 * 2 + 0.25 * 1
    assert concurrency.current == 1


def test_a_period_begins_with_what_is_still_there() -> None:
    clock = FakeClock()
    concurrency = Concurrency(clock)
    concurrency.enter()
    clock.now_s += 1
    concurrency.report()
    clock.now_s += 2
    assert concurrency.report() == 1.0
    concurrency.leave()
    clock.now_s += 1
    assert concurrency.report() == 0.0


def test_a_period_without_length_reports_the_moment() -> None:
    concurrency = Concurrency(FakeClock())
    concurrency.enter()
    assert concurrency.report() == 1.0


def test_an_announced_request_is_not_counted_again_in_its_period() -> None:
    clock = FakeClock()
    concurrency = Concurrency(clock)
    concurrency.enter()
    assert concurrency.announce() == 1.0
    concurrency.enter()
    concurrency.enter()
    clock.now_s += 1
    assert concurrency.report() == 2.0
    clock.now_s += 1
    assert concurrency.report() == 3.0, "the next period is whole"
    concurrency.announce()
    for _ in range(3):
        concurrency.leave()
    clock.now_s += 1
    assert concurrency.report() == 0.0, "never below nothing"


def test_last_activity() -> None:
    clock = FakeClock()
    concurrency = Concurrency(clock)
    assert concurrency.last_activity_s == -math.inf
    concurrency.enter()
    clock.now_s += 5
    assert concurrency.last_activity_s == 105.0
    concurrency.leave()
    clock.now_s += 5
    assert concurrency.last_activity_s == 105.0


def test_a_rate_is_of_requests_that_came_in_the_period() -> None:
    clock, counts = FakeClock(), Counts(requests=7)
    rate = Rate(clock, Concurrency(clock), counts)
    counts.requests += 6
    clock.now_s += 2
    assert rate.report() == 3.0
    clock.now_s += 1
    assert rate.report() == 0.0


def test_a_request_that_was_announced_is_not_counted_again() -> None:
    clock, counts = FakeClock(), Counts()
    rate = Rate(clock, Concurrency(clock), counts)
    counts.requests += 1
    assert rate.announce() == 1.0
    clock.now_s += 1
    assert rate.report() == 0.0
    counts.requests += 1
    clock.now_s += 1
    assert rate.report() == 1.0


def test_a_request_that_stays_is_a_little_more_than_no_rate() -> None:
    clock, counts = FakeClock(), Counts()
    concurrency = Concurrency(clock)
    rate = Rate(clock, concurrency, counts)
    concurrency.enter()
    clock.now_s += 1
    assert 0 < rate.report() < 0.01
    concurrency.leave()
    clock.now_s += 1
    assert rate.report() == 0.0
    assert rate.report() == 0.0, "a period without length"
