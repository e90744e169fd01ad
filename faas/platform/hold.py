"""A request that waits for an instance: its place in the queue, and until when it may wait."""

import asyncio
from typing import Protocol

from faas.errors import DeadlineExceeded, FaasError, QueueFull, Unavailable
from faas.platform.breaker import Capacity
from faas.platform.endpoint import Endpoint
from faas.platform.request_head import Held


class Holder(Protocol):
    """Whose request it is."""

    def granted(self, endpoint: Endpoint) -> None:
        """The wait is over: `endpoint` takes the request."""

    def give_up(self, error: FaasError) -> None:
        """The wait was in vain."""


class Hold:
    """All waits of one request: more than one where an instance turned out not to take it. `held` adds them up.

    A request that states a time-out waits for `timeout_ms` in all at most.
    """

    __slots__ = ("_capacity", "_holder", "_loop", "_most_s", "_since_s", "_timer", "held")

    def __init__(
        self, holder: Holder, capacity: Capacity, loop: asyncio.AbstractEventLoop, timeout_ms: float | None
    ) -> None:
        self._holder = holder
        self._capacity = capacity
        self._loop = loop
        self._most_s = capacity.hold_s if timeout_ms is None else min(capacity.hold_s, timeout_ms / 1e3)
        self._since_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.held = Held(0.0, False)
        capacity.counts.held += 1

    def wait(self, *, first: bool) -> None:
        """Wait, or wait again: `first` in line, since the request has had its turn."""
        capacity, (total_ms, was_cold) = self._capacity, self.held
        is_cold = was_cold or capacity.is_at_zero
        capacity.counts.cold += is_cold and not was_cold
        self.held = Held(total_ms, is_cold)
        self._since_s = capacity.clock()
        self._timer = self._loop.call_later(max(0.0, self._most_s - total_ms / 1e3), self._expired)
        if not capacity.hold(self, first=first):
            self._holder.give_up(QueueFull(f"{capacity.queue_limit} requests wait for this function: try again later"))

    def end(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._capacity.withdraw(self)

    def granted(self, endpoint: Endpoint) -> None:
        """The queue's word that `endpoint` is to take the request."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waited_ms = (self._capacity.clock() - self._since_s) * 1e3
        self.held = self.held._replace(total_ms=self.held.total_ms + waited_ms)
        self._holder.granted(endpoint)

    def refused(self, reason: str, retry_after_s: int) -> None:
        """The queue's word that nobody will."""
        self._holder.give_up(Unavailable(reason, retry_after_s))

    def _expired(self) -> None:
        self._holder.give_up(DeadlineExceeded("the deadline passed before an instance could take the request"))
