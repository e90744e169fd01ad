"""When to start a zygote again, and how many workers to park. Pure: the caller brings the clock."""

from dataclasses import dataclass

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0


def delay_s(num_failures: int) -> float:
    """Return the wait after that many failures in a row: none after none, then doubling up to `MAX_DELAY_S`."""
    if num_failures == 0:
        return 0.0
    return min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(num_failures - 1, 32))


@dataclass(frozen=True)
class Backoff:
    """What a run of failures allows. Instants are seconds of the caller's clock."""

    num_failures: int = 0
    retry_at: float = 0.0

    def after(self, *, served: bool, now: float, not_before: float = 0.0) -> "Backoff":
        """Return the state after an end.

        One that `served` first counts as sound, and may be replaced at once, though `not_before` a certain instant.
        """
        if served:
            return Backoff(0, max(now, not_before))
        return Backoff(self.num_failures + 1, now + delay_s(self.num_failures + 1))

    def wait_s(self, now: float) -> float:
        """Return how long from `now` no attempt is allowed."""
        return max(0.0, self.retry_at - now)


def num_to_park(num_parked: int, buffer: int) -> int:
    """Return how many workers to fork ahead now."""
    return max(0, buffer - num_parked)
