"""Who may send to which instance: hard limits, Knative's choice among instances, and the queue of those who wait.

No I/O: a request that waits is a `Waiter`, and everything happens at once, in the call.
"""

import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from faas.clock import Clock, monotonic
from faas.platform.demand import Concurrency, Counts
from faas.platform.endpoint import UNLIMITED, Endpoint

_FIRST_AVAILABLE_UP_TO = 3  # hard limits up to this fill one instance before the next


class Waiter(Protocol):
    """A request that is held. It gets one of these calls, unless it is withdrawn first."""

    def granted(self, endpoint: Endpoint) -> None:
        """Send to `endpoint`, and `release` it afterwards."""

    def refused(self, reason: str, retry_after_s: int) -> None:
        """Nobody will serve it."""


def _ignore(*_: object) -> None:
    """What happens where nobody listens."""


class Capacity:
    """The instances of one revision, and the requests that wait for them.

    `limit` is the hard limit of requests at once in each instance, 0 for none. At most `queue_limit` requests are held,
    each for `hold_s` at most, in the order of their arrival. An instance that has not answered a request after `call_s`
    seconds counts as unreachable. `on_demand` is called at once whenever a request has to
    wait, `on_unreachable` when an instance refused a connection and was therefore taken out.
    """

    def __init__(
        self,
        *,
        limit: int = 0,
        queue_limit: int = 10_000,
        hold_s: float = 360.0,
        call_s: float | None = None,
        on_demand: Callable[[], object] = _ignore,
        on_unreachable: Callable[[Endpoint], object] = _ignore,
        clock: Clock = monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.limit = limit
        self.queue_limit = queue_limit
        self.hold_s = hold_s
        self.call_s = call_s
        self.on_demand = on_demand
        self.on_unreachable = on_unreachable
        self.clock = clock
        self.concurrency = Concurrency(clock)
        self.counts = Counts()
        self._rng = rng or random.Random()
        self._endpoints: list[Endpoint] = []
        self._waiting: OrderedDict[Waiter, None] = OrderedDict()
        self._last = -1  # where round robin has been last
        self._is_granting = False
        self._take = self._policy()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The instances that take requests."""
        return tuple(self._endpoints)

    @property
    def num_held(self) -> int:
        """Requests that wait for an instance."""
        return len(self._waiting)

    @property
    def is_at_zero(self) -> bool:
        """Whether no instance takes requests."""
        return not self._endpoints

    def add(self, endpoint: Endpoint) -> None:
        """An instance is ready; those who wait are sent to it at once, as far as its limit goes."""
        endpoint.limit = self.limit or UNLIMITED
        endpoint.is_retired = False
        self._endpoints.append(endpoint)
        self._grant()

    def remove(self, endpoint: Endpoint, drained: Callable[[], object] | None = None) -> None:
        """Send no more to `endpoint`. What is in flight finishes; `drained` is called when it has, perhaps at once."""
        self._take_out(endpoint)
        endpoint.retire(drained)

    def fail(self, endpoint: Endpoint) -> None:
        """The instance is dead: take it out and fail what is in flight, or send it elsewhere if it was never read."""
        self.remove(endpoint)
        for connection in tuple(endpoint.connections):
            connection.instance_died()

    def unreachable(self, endpoint: Endpoint) -> None:
        """`endpoint` refused a connection: take it out, and say so once."""
        if not endpoint.is_retired:
            self.remove(endpoint)
            self.on_unreachable(endpoint)

    def congested(self, endpoint: Endpoint) -> bool:
        """The listen queue of `endpoint` was full for a request: give it no more than it has without that one.

        False if it has nothing else, so that nothing would end the congestion.
        """
        if endpoint.in_flight < 2:
            return False
        endpoint.limit = endpoint.in_flight - 1
        return True

    def arrive(self) -> None:
        """A request arrives, to `leave` when it is over, that `acquire`s an instance later."""
        self.counts.requests += 1
        self.concurrency.enter()

    def enter(self) -> Endpoint | None:
        """A request arrives, to `leave` when it is over: `acquire` for it."""
        self.counts.requests += 1
        self.concurrency.enter()
        return None if self._waiting else self._take()

    def enter_at(self, id: bytes) -> Endpoint | None:
        """A request arrives that takes no handler, and means the instance `id`; it enters as any where that is gone."""
        meant = next((one for one in self._endpoints if one.id == id), None)
        if meant is None:
            return self.enter()
        self.counts.requests += 1
        self.concurrency.enter()
        meant.in_flight += 1
        return meant

    def leave(self, endpoint: Endpoint | None) -> None:
        """A request is over, whatever became of it: `release` what it had."""
        self.concurrency.leave()
        if endpoint is not None:
            endpoint.in_flight -= 1
            if endpoint.is_retired or self._waiting:
                self._freed(endpoint)

    def acquire(self) -> Endpoint | None:
        """An instance with room, to be released after use; None where there is none or others wait already."""
        return None if self._waiting else self._take()

    def release(self, endpoint: Endpoint) -> None:
        """A request to `endpoint` is over."""
        endpoint.in_flight -= 1
        self._freed(endpoint)

    def hold(self, waiter: Waiter, *, first: bool = False) -> bool:
        """Wait for an instance, `first` before all others since it has waited already. False if the queue is full."""
        if len(self._waiting) >= self.queue_limit and not first:
            return False
        self._waiting[waiter] = None
        if first:
            self._waiting.move_to_end(waiter, last=False)
        self.on_demand()
        return True

    def withdraw(self, waiter: Waiter) -> None:
        """`waiter` waits no more."""
        self._waiting.pop(waiter, None)

    def give_up(self, reason: str, retry_after_s: int) -> None:
        """Refuse all who wait now: no instance can be had."""
        while self._waiting:
            self._waiting.popitem(last=False)[0].refused(reason, retry_after_s)

    def _take_out(self, endpoint: Endpoint) -> None:
        if endpoint in self._endpoints:
            self._endpoints.remove(endpoint)

    def _freed(self, endpoint: Endpoint) -> None:
        endpoint.tell_if_drained()
        self._grant()

    def _grant(self) -> None:
        """Send those who wait, in their order, while an instance has room."""
        if self._is_granting:
            return  # the loop below goes on after a grant that ended at once
        self._is_granting = True
        try:
            while self._waiting:
                endpoint = self._take()
                if endpoint is None:
                    break
                self._waiting.popitem(last=False)[0].granted(endpoint)
        finally:
            self._is_granting = False

    # Knative's policies, by hard limit; what they take is one in flight more.

    def _policy(self) -> Callable[[], Endpoint | None]:
        if self.limit == 0:
            return self._take_less_busy_of_two
        return self._take_first if self.limit <= _FIRST_AVAILABLE_UP_TO else self._take_next

    def _take_first(self) -> Endpoint | None:
        for endpoint in self._endpoints:
            if endpoint.in_flight < endpoint.limit:
                endpoint.in_flight += 1
                return endpoint
        return None

    def _take_next(self) -> Endpoint | None:
        """Round robin; an instance without room is passed over."""
        endpoints = self._endpoints
        for _ in endpoints:
            self._last = (self._last + 1) % len(endpoints)
            endpoint = endpoints[self._last]
            if endpoint.in_flight < endpoint.limit:
                endpoint.in_flight += 1
                return endpoint
        return None

    def _take_less_busy_of_two(self) -> Endpoint | None:
        if len(self._endpoints) < 2:
            return self._take_first()
        one, other = self._rng.sample(self._endpoints, 2)
        less = other if other.in_flight < one.in_flight else one
        if less.in_flight >= less.limit:
            return self._take_first()
        less.in_flight += 1
        return less
