"""The levels of a queue: which one a call belongs to, what may wait there and for how long. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from faas.messages import Call
from faas.spec import Batching, QueuePolicy


class Levels:
    """The queue policies of levels 1, the highest, to `num_levels`.

    A call that states no level belongs to `default`. So does one that states a level which is not there, where a
    default was chosen; else that one belongs to the lowest.
    """

    def __init__(self, policies: Sequence[QueuePolicy] = (QueuePolicy(),), default: int | None = None) -> None:
        self.num_levels = len(policies)
        self.bounded = any(policy.max_queue is not None for policy in policies)
        self.times_out = any(policy.times_out for policy in policies)
        self._policies = policies
        self._default = default or 1
        self._beyond = default or self.num_levels

    @property
    def are_plain(self) -> bool:
        """Whether there is one level, and it neither bounds what waits nor for how long."""
        return self.num_levels == 1 and not self.bounded and not self.times_out

    @classmethod
    def of(cls, batching: Batching | None) -> Levels:
        """Return the levels of a batching; a single one without a bound where there is none."""
        if batching is None:
            return cls()
        policies = [batching.queue_policy(level) for level in range(1, batching.priorities + 1)]
        return cls(policies, batching.default_priority)

    def of_call(self, call: Call) -> int:
        """Return the level of a call."""
        stated = call.priority
        if stated <= 0:
            return self._default
        return stated if stated <= self.num_levels else self._beyond

    def policy(self, call: Call) -> QueuePolicy:
        """Return the policy of the level of a call."""
        return self._policies[self.of_call(call) - 1]

    def most(self, level: int) -> float:
        """Return how many items may wait in a level."""
        most = self._policies[level - 1].max_queue
        return math.inf if most is None else most

    def late_at(self, call: Call) -> float:
        """Return the moment from which a call has waited too long. What the caller states only shortens the time."""
        policy = self.policy(call)
        timeout_s = math.inf if policy.timeout_ms is None else policy.timeout_ms / 1000.0
        if policy.allow_timeout_override:
            timeout_s = min(timeout_s, call.queue_timeout_s)
        return call.queued_at + timeout_s
