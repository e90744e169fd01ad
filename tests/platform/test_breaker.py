import random
from collections.abc import Callable
from typing import Any

import pytest

from faas.platform.breaker import Capacity
from faas.platform.endpoint import Caller, Endpoint


class Request:
    """A waiter that remembers what it was told."""

    def __init__(self, then: Callable[[Endpoint], object] | None = None) -> None:
        self.endpoint: Endpoint | None = None
        self.refusal: tuple[str, int] | None = None
        self._then = then

    def granted(self, endpoint: Endpoint) -> None:
        assert self.endpoint is None, "granted twice"
        self.endpoint = endpoint
        if self._then is not None:
            self._then(endpoint)

    def refused(self, reason: str, retry_after_s: int) -> None:
        self.refusal = (reason, retry_after_s)


class Connection:
    """As much of a connection as a capacity uses."""

    is_congested = False

    def __init__(self) -> None:
        self.is_closed = False
        self.is_dead = False

    def close(self) -> None:
        self.is_closed = True

    def instance_died(self) -> None:
        self.is_dead = True

    def begin(self, caller: Caller, data: bytes) -> None:
        raise NotImplementedError

    def send(self, data: bytes) -> None:
        raise NotImplementedError

    pause = resume = give_back = instance_died


def endpoints(num: int) -> list[Endpoint]:
    return [Endpoint(f"/run/{number}") for number in range(num)]


def capacity_of(num: int, limit: int, **settings: Any) -> tuple[Capacity, list[Endpoint]]:
    capacity = Capacity(limit=limit, rng=random.Random(1), **settings)
    made = endpoints(num)
    for endpoint in made:
        capacity.add(endpoint)
    return capacity, made


# --- the hard limit and the choice


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
def test_no_instance_gets_more_than_its_limit(limit: int) -> None:
    capacity, made = capacity_of(3, limit)
    taken = [capacity.acquire() for _ in range(3 * limit)]
    assert None not in taken
    assert [endpoint.in_flight for endpoint in made] == [limit] * 3
    assert capacity.acquire() is None
    capacity.release(made[1])
    assert capacity.acquire() is made[1]


def test_a_small_limit_fills_the_first_with_room() -> None:
    capacity, made = capacity_of(3, 2)
    assert [capacity.acquire() for _ in range(5)] == [made[0], made[0], made[1], made[1], made[2]]
    capacity.release(made[0])
    assert capacity.acquire() is made[0]


def test_a_greater_limit_goes_round() -> None:
    capacity, made = capacity_of(3, 4)
    assert [capacity.acquire() for _ in range(4)] == [*made, made[0]]
    made[1].in_flight = 4
    assert capacity.acquire() is made[2], "one without room is passed over"


def test_without_a_limit_the_less_busy_of_two() -> None:
    capacity, made = capacity_of(2, 0)
    made[0].in_flight = 5
    assert [capacity.acquire() for _ in range(4)] == [made[1]] * 4
    capacity, made = capacity_of(8, 0)
    for _ in range(800):
        capacity.acquire()
    assert max(endpoint.in_flight for endpoint in made) - min(endpoint.in_flight for endpoint in made) <= 10


def test_without_a_limit_one_instance_takes_all() -> None:
    capacity, made = capacity_of(1, 0)
    assert {capacity.acquire() for _ in range(1000)} == set(made)


def test_at_zero_there_is_none() -> None:
    for limit in (0, 1, 10):
        capacity, made = capacity_of(0, limit)
        assert capacity.is_at_zero
        assert capacity.enter() is None
        assert capacity.endpoints == tuple(made)
        assert capacity.counts.requests == capacity.concurrency.current == 1


# --- the queue


def test_who_came_first_is_served_first() -> None:
    capacity, made = capacity_of(1, 1)
    capacity.acquire()
    requests = [Request() for _ in range(3)]
    for request in requests:
        assert capacity.hold(request)
    for number, request in enumerate(requests):
        capacity.release(made[0])
        assert request.endpoint is made[0]
        assert all(later.endpoint is None for later in requests[number + 1 :])


def test_nobody_overtakes_those_who_wait() -> None:
    capacity, made = capacity_of(1, 2)
    capacity.acquire()
    capacity.acquire()
    capacity.hold(Request())
    made[0].in_flight = 1  # room, though nobody was told
    assert capacity.acquire() is None


def test_one_who_was_granted_in_vain_is_first_again() -> None:
    capacity, _ = capacity_of(0, 1)
    early, again = Request(), Request()
    capacity.hold(early)
    capacity.hold(again, first=True)
    capacity.add(endpoints(1)[0])
    assert again.endpoint is not None
    assert early.endpoint is None


def test_the_queue_is_bounded_but_not_for_those_who_were_in_it() -> None:
    capacity, _ = capacity_of(0, 1, queue_limit=2)
    assert capacity.hold(Request())
    assert capacity.hold(Request())
    assert not capacity.hold(Request())
    assert capacity.num_held == 2
    assert capacity.hold(Request(), first=True)


def test_one_who_leaves_gives_up_his_place() -> None:
    capacity, _ = capacity_of(0, 1)
    gone, stays = Request(), Request()
    capacity.hold(gone)
    capacity.hold(stays)
    capacity.withdraw(gone)
    capacity.withdraw(gone)
    (endpoint,) = endpoints(1)
    capacity.add(endpoint)
    assert gone.endpoint is None
    assert stays.endpoint is endpoint


def test_a_ready_instance_serves_as_many_as_its_limit() -> None:
    capacity, _ = capacity_of(0, 2)
    requests = [Request() for _ in range(5)]
    for request in requests:
        capacity.hold(request)
    capacity.add(endpoints(1)[0])
    assert [request.endpoint is not None for request in requests] == [True, True, False, False, False]


def test_everyone_who_waits_says_that_he_wants_to_be_served() -> None:
    demands: list[int] = []
    capacity = Capacity(limit=1, on_demand=lambda: demands.append(capacity.num_held))
    capacity.hold(Request())
    capacity.hold(Request())
    assert demands == [1, 2]


def test_an_instance_may_become_ready_within_the_demand() -> None:
    (endpoint,) = endpoints(1)
    capacity = Capacity(limit=1, on_demand=lambda: capacity.add(endpoint))
    request = Request()
    assert capacity.hold(request)
    assert request.endpoint is endpoint


def test_who_waits_can_be_refused() -> None:
    capacity, _ = capacity_of(0, 1)
    requests = [Request(), Request()]
    for request in requests:
        capacity.hold(request)
    capacity.give_up("instances fail to start", 5)
    assert [request.refusal for request in requests] == [("instances fail to start", 5)] * 2
    assert capacity.num_held == 0


def test_grants_that_end_at_once_do_not_nest() -> None:
    capacity, _ = capacity_of(0, 1)
    requests = [Request(then=capacity.release) for _ in range(5000)]
    for request in requests:
        capacity.hold(request)
    capacity.add(endpoints(1)[0])
    assert all(request.endpoint is not None for request in requests)


# --- instances that go


def test_a_removed_instance_gets_no_more_and_tells_when_it_is_done() -> None:
    done: list[str] = []
    capacity, made = capacity_of(2, 1)
    capacity.acquire()
    capacity.remove(made[0], lambda: done.append("first"))
    capacity.remove(made[1], lambda: done.append("second"))
    assert done == ["second"]
    assert capacity.is_at_zero
    capacity.release(made[0])
    assert done == ["second", "first"]
    capacity.remove(made[0], lambda: done.append("again"))
    assert done[-1] == "again"


def test_a_removed_instance_loses_its_idle_connections_and_keeps_the_others() -> None:
    capacity, made = capacity_of(1, 2)
    idle, busy = Connection(), Connection()
    made[0].connections = {idle, busy}
    made[0].idle = [idle]
    capacity.remove(made[0])
    assert (idle.is_closed, busy.is_closed, busy.is_dead) == (True, False, False)


def test_a_dead_instance_fails_those_in_flight() -> None:
    capacity, made = capacity_of(1, 2)
    busy = Connection()
    made[0].connections = {busy}
    capacity.fail(made[0])
    assert busy.is_dead
    assert capacity.is_at_zero


def test_an_unreachable_instance_is_reported_once() -> None:
    reported: list[Endpoint] = []
    capacity, made = capacity_of(1, 2, on_unreachable=reported.append)
    capacity.unreachable(made[0])
    capacity.unreachable(made[0])
    assert reported == made
    assert capacity.acquire() is None


def test_an_instance_may_come_back() -> None:
    capacity, made = capacity_of(1, 2)
    capacity.unreachable(made[0])
    capacity.add(made[0])
    assert not made[0].is_retired
    assert capacity.acquire() is made[0]


def test_a_congested_instance_gets_no_more_than_it_has() -> None:
    capacity, made = capacity_of(1, 0)
    for _ in range(3):
        capacity.acquire()
    assert capacity.congested(made[0])
    capacity.release(made[0])
    assert capacity.acquire() is None
    capacity.release(made[0])
    assert capacity.acquire() is made[0]


def test_an_instance_that_has_nothing_is_not_congested_but_broken() -> None:
    capacity, made = capacity_of(1, 0)
    capacity.acquire()
    assert not capacity.congested(made[0])


def test_of_two_without_limit_the_one_with_room() -> None:
    capacity, made = capacity_of(2, 0)
    for endpoint in made:
        endpoint.in_flight = 3
    made[0].limit = 3
    assert capacity.acquire() is made[1]
    made[1].limit = 4
    assert capacity.acquire() is None


def test_leaving_is_accounted_for() -> None:
    capacity, made = capacity_of(1, 1)
    assert capacity.enter() is made[0]
    assert capacity.concurrency.current == 1
    capacity.leave(made[0])
    assert capacity.concurrency.current == made[0].in_flight == 0
    capacity.enter()
    capacity.leave(None)
    assert capacity.concurrency.current == 0
