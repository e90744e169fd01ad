"""When to start a zygote again, how many workers to park, which zygote to share. Pure: the caller brings the clock."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0
MAX_DELAY_OF_HOT_S = 3600.0
"""Of a hot zygote, without which there still are workers: what makes it fail seldom goes away by itself."""
SOUND_AFTER_S = 1.0
"""A zygote that ends this long after it was ready did not fail to start."""
MAX_SURPLUS = 0.25
MAX_MISSING = 0.05


def delay_s(num_failures: int, most_s: float = MAX_DELAY_S) -> float:
    """Return the wait after that many failures in a row: none after none, then doubling up to `most_s`."""
    if num_failures == 0:
        return 0.0
    return min(most_s, FIRST_DELAY_S * 2.0 ** min(num_failures - 1, 32))


@dataclass(frozen=True)
class Backoff:
    """What a run of failures allows. Instants are seconds of the caller's clock."""

    num_failures: int = 0
    retry_at: float = 0.0

    def after(self, *, served: bool, now: float, not_before: float = 0.0, most_s: float = MAX_DELAY_S) -> "Backoff":
        """Return the state after a process has ended.

        One that had `served` was sound and may be replaced at once, but not before the instant `not_before`. After
        others the wait doubles up to `most_s`.
        """
        if served:
            return Backoff(0, max(now, not_before))
        return Backoff(self.num_failures + 1, now + delay_s(self.num_failures + 1, most_s))

    def wait_s(self, now: float) -> float:
        """Return how long from `now` no attempt is allowed."""
        return max(0.0, self.retry_at - now)


def num_to_park(num_parked: int, buffer: int) -> int:
    """Return how many workers to fork ahead now."""
    return max(0, buffer - num_parked)


def nearest(wanted: Set[str], bases: Sequence[Set[str]]) -> int | None:
    """Return which of `bases`, the modules of zygotes, a hot zygote with the modules `wanted` may be forked from.

    The one that lacks the least, of equals the one with the least beyond; None where each is too far away. What it
    lacks, every hot zygote has to import for itself, in memory and time of its own: at most `MAX_MISSING` of what is
    wanted. What it has beyond is shared memory, but makes each fork of its heirs slower and may change what code finds
    (`sys.modules`): at most `MAX_SURPLUS` of what is wanted. A base with all of torch so never serves who needs none.
    """
    best: tuple[int, int, int] | None = None
    for index, base in enumerate(bases):
        num_missing, num_surplus = len(wanted - base), len(base - wanted)
        near = num_missing <= MAX_MISSING * len(wanted) and num_surplus <= MAX_SURPLUS * len(wanted)
        if near and (best is None or (num_missing, num_surplus, index) < best):
            best = num_missing, num_surplus, index
    return None if best is None else best[2]
