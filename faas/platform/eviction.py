"""Who goes when memory is short: greedy-dual, as FaasCache has it.

Fuerst and Sharma, "FaasCache: Keeping Serverless Computing Alive with Greedy-Dual Caching" (ASPLOS 2021): of what
idles, the one with the least `clock + frequency * cost / size` goes, and the clock then stands at its priority. So what
is called often, is slow to start or is small stays; what has not been called since many others went does not. Pure.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Idler:
    """Something warm that could go: calls since it is there, seconds that its next start would take, its bytes."""

    num_calls: int
    start_s: float
    num_bytes: int


@dataclass(frozen=True)
class GreedyDual:
    """The clock, and where it stood when each was last used, by name."""

    clock: float = 0.0
    used_at: Mapping[str, float] = field(default_factory=dict)

    def used(self, name: str) -> "GreedyDual":
        """Return the state after a call of `name`."""
        return GreedyDual(self.clock, {**self.used_at, name: self.clock})

    def forgotten(self, names: Collection[str]) -> "GreedyDual":
        """Return the state without the names, which are gone for good."""
        return GreedyDual(self.clock, {name: at for name, at in self.used_at.items() if name not in names})

    def priority(self, name: str, idler: Idler) -> float:
        """Return how much speaks for keeping it."""
        return self.used_at.get(name, self.clock) + idler.num_calls * idler.start_s / max(1, idler.num_bytes)

    def evict(self, idlers: Mapping[str, Idler], num_bytes: int) -> tuple[tuple[str, ...], "GreedyDual"]:
        """Return who has to go to free `num_bytes`, the least wanted first, and the state after that.

        All of them where they do not have that much together.
        """
        state, freed, going = self, 0, []
        for name in sorted(idlers, key=lambda name: (self.priority(name, idlers[name]), name)):
            if freed >= num_bytes:
                break
            state = GreedyDual(max(state.clock, self.priority(name, idlers[name])), state.used_at)
            freed += idlers[name].num_bytes
            going.append(name)
        return tuple(going), state
