import math
from collections.abc import Callable
from itertools import islice, zip_longest
from typing import Any

import pytest

from loadgen import ClosedLoop, OpenLoop, SettingError, Workload
from loadgen.plan import Plan, decode, encode, planned_share, share_of

WORKLOAD = Workload(url="http://127.0.0.1:8000/", bodies=(b"a", b"b", b"\xff"), order="random")


def make_plan(load: OpenLoop | ClosedLoop, **settings: Any) -> Plan:
    return Plan(load=load, workload=WORKLOAD, **settings)


def planned(load: OpenLoop, rank: int = 0, **settings: Any) -> list[tuple[float, bytes | None]]:
    return list(planned_share(make_plan(load, **settings), load, rank))


STEADY = OpenLoop(rate_per_s=1)
MAKERS: dict[str, Callable[[Any], object]] = {
    "rate_per_s": lambda bad: OpenLoop(rate_per_s=bad),
    "gamma_shape": lambda bad: OpenLoop(rate_per_s=1, gamma_shape=bad),
    "late_after_ms": lambda bad: OpenLoop(rate_per_s=1, late_after_ms=bad),
    "max_concurrency": lambda bad: OpenLoop(rate_per_s=1, max_concurrency=bad),
    "num_callers": lambda bad: ClosedLoop(num_callers=bad),
    "duration_s": lambda bad: make_plan(STEADY, duration_s=bad),
    "num_requests": lambda bad: make_plan(STEADY, num_requests=bad),
    "timeout_s": lambda bad: make_plan(STEADY, duration_s=1, timeout_s=bad),
    "slo_ms": lambda bad: make_plan(STEADY, duration_s=1, slo_ms=bad),
    "processes": lambda bad: make_plan(STEADY, duration_s=1, num_processes=bad),
}


@pytest.mark.parametrize("bad", [0, -1, 0.0, math.nan, math.inf, "7"])
@pytest.mark.parametrize("name", MAKERS)
def test_numbers_that_cannot_be_driven_are_refused_with_their_value(name: str, bad: Any) -> None:
    with pytest.raises(SettingError, match=f"^{name} is {bad!r}; give a"):
        MAKERS[name](bad)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: OpenLoop(), "rate_per_s is None"),
        (
            lambda: OpenLoop(rate_per_s=1, arrivals="uniform"),  # type: ignore[arg-type]
            "poisson, constant, gamma",
        ),
        (lambda: OpenLoop(rate_per_s=1, arrivals=(0.0,)), "one of the two"),
        (lambda: OpenLoop(arrivals=()), "empty"),
        (lambda: OpenLoop(arrivals=(0.5, 0.25)), "0.25 after 0.5"),
        (lambda: OpenLoop(arrivals=(-1.0,)), "-1.0"),
        (lambda: OpenLoop(arrivals=(math.nan,)), "nan"),
        (lambda: ClosedLoop(num_callers=1, think_s=-1), "think_s is -1"),
        (lambda: ClosedLoop(num_callers=1, think_s=math.inf), "think_s is inf"),
        (lambda: make_plan(OpenLoop(rate_per_s=1)), "no end"),
        (lambda: make_plan(ClosedLoop(num_callers=1)), "no end"),
        (lambda: make_plan(OpenLoop(rate_per_s=1), duration_s=1, seed=-1), "seed is -1"),
        (lambda: make_plan(ClosedLoop(num_callers=1), duration_s=1, num_processes=2), "num_callers is 1 for 2"),
        (
            lambda: make_plan(OpenLoop(rate_per_s=1, max_concurrency=1), duration_s=1, num_processes=2),
            "max_concurrency is 1 for 2",
        ),
        (lambda: make_plan(OpenLoop(rate_per_s=1), num_requests=1, num_processes=2), "num_requests is 1 for 2"),
    ],
)
def test_settings_that_contradict_are_refused(make: Any, named: str) -> None:
    with pytest.raises(SettingError, match=named):
        make()


def test_a_run_ends_before_its_duration_and_at_its_number() -> None:
    load = OpenLoop(rate_per_s=10, arrivals="constant")
    assert [instant for instant, _ in planned(load, duration_s=0.5)] == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert [instant for instant, _ in planned(load, duration_s=0.5, num_requests=2)] == [0.0, 0.1]


def test_given_instants_are_kept_and_need_no_other_end() -> None:
    load = OpenLoop(arrivals=(0.0, 0.0, 1.5))
    assert [instant for instant, _ in planned(load)] == [0.0, 0.0, 1.5]
    assert [instant for instant, _ in planned(load, duration_s=1)] == [0.0, 0.0]


def test_processes_share_one_run_without_gap_or_overlap() -> None:
    load = OpenLoop(rate_per_s=200)
    whole = planned(load, duration_s=2, seed=3)
    shares = [planned(load, rank, duration_s=2, seed=3, num_processes=3) for rank in range(3)]
    dealt = [request for round_ in zip_longest(*shares) for request in round_ if request is not None]
    assert dealt == whole
    assert len(whole) > 300


@pytest.mark.parametrize("total", [3, 4, 5, 100])
def test_shares_sum_up_and_differ_by_one_at_most(total: int) -> None:
    shares = [share_of(total, rank, 3) for rank in range(3)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


def test_bodies_do_not_follow_the_arrivals_draws() -> None:
    load = OpenLoop(rate_per_s=10)
    instants, bodies = zip(*islice(planned(load, num_requests=50, seed=1), 50), strict=True)
    slower = planned(OpenLoop(rate_per_s=5), num_requests=50, seed=1)
    assert [body for _, body in slower] == list(bodies)
    assert [instant for instant, _ in slower] == pytest.approx([2 * instant for instant in instants])


@pytest.mark.parametrize(
    "load", [OpenLoop(rate_per_s=3), OpenLoop(arrivals=(0.0, 1.5)), ClosedLoop(num_callers=4, think_s=0.5)]
)
def test_a_plan_reaches_a_process_as_it_was(load: OpenLoop | ClosedLoop) -> None:
    plan = make_plan(load, duration_s=2, num_requests=9, slo_ms=20, seed=2**70, num_processes=2)
    line = encode(plan)
    assert line.index(b"\n") == len(line) - 1
    assert decode(line) == plan
