"""When a revision on trial is to give its share back, and when it may take all of it. Pure: readings in, a verdict out.

Both revisions are compared over the same window of time, since what troubles both is not the new one's doing. An error
rate counts only once its lower bound (Wilson's score interval) is above what is allowed, so that three failures in
sixty requests convict nobody; a p99 needs a hundred requests. One bad window is a warning: it takes several to roll
back, and a window that is merely less bad does not clear the ones before it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from deploy import checks

Verdict = Literal["wait", "roll back", "promote"]

_Z = 1.645  # one-sided, 95 %
_MIN_FOR_P99 = 100


@dataclass(frozen=True)
class Counts:
    """Answered requests: how many, how many of them failed, and `buckets` of (seconds, answers that took no longer)."""

    num_requests: int = 0
    num_errors: int = 0
    buckets: tuple[tuple[float, int], ...] = ()

    def __add__(self, other: "Counts") -> "Counts":
        return _combined(self, other, 1)

    def __sub__(self, other: "Counts") -> "Counts":
        return _combined(self, other, -1)

    @property
    def error_rate(self) -> float:
        """The share that failed, 0 where there were none."""
        return self.num_errors / self.num_requests if self.num_requests else 0.0

    @property
    def num_timed(self) -> int:
        """How many of the answers are in `buckets`."""
        return self.buckets[-1][1] if self.buckets else 0

    def quantile_s(self, q: float) -> float:
        """The latency below which a share `q` lies, linear inside a bucket, as Prometheus' `histogram_quantile`."""
        if not self.num_timed:
            return math.nan
        rank, below_s, below = q * self.num_timed, 0.0, 0
        for bound_s, count in self.buckets:
            if count >= rank:
                if math.isinf(bound_s) or count == below:
                    return below_s
                return below_s + (bound_s - below_s) * (rank - below) / (count - below)
            below_s, below = bound_s, count
        return below_s


Reading = Mapping[str, Counts]  # by instance, each counted since that instance began


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much worse than the stable revision the one on trial may be, and how sure one has to be.

    An error rate may be `error_rate_margin` higher, a p99 `p99_factor` times the stable one's and `p99_margin_s` more.
    Each look covers `window_s` with at least `min_requests` on trial; `num_breaches` bad looks roll back, and a look
    counts as good again below `clear_share` of what is allowed. After `trial_s` without a bad look it is promoted.
    """

    error_rate_margin: float = 0.02
    p99_factor: float = 1.5
    p99_margin_s: float = 0.02
    window_s: float = 60
    min_requests: int = 50
    num_breaches: int = 3
    clear_share: float = 0.8
    trial_s: float = 600

    def __post_init__(self) -> None:
        for option, least in (("error_rate_margin", 0), ("p99_factor", 1), ("p99_margin_s", 0), ("window_s", 1)):
            checks.number(f"rollback.{option}", getattr(self, option), least=least)
        checks.number("rollback.trial_s", self.trial_s, least=0)
        checks.number("rollback.clear_share", self.clear_share, least=0)
        checks.whole("rollback.min_requests", self.min_requests, least=1)
        checks.whole("rollback.num_breaches", self.num_breaches, least=1)


@dataclass(frozen=True)
class _Look:
    at: float
    candidate: Counts
    stable: Counts


@dataclass(frozen=True)
class Trial:
    """A trial as it stands: what was read last, and what was counted in the window. Made by `begin`."""

    began_at: float
    candidate: Reading
    stable: Reading
    looks: tuple[_Look, ...] = ()
    num_breaches: int = 0
    num_requests: int = 0


@dataclass(frozen=True)
class Decision:
    """A verdict with its reason, and what it was based on: the counts of the window."""

    verdict: Verdict
    reason: str
    candidate: Counts = field(default_factory=Counts)
    stable: Counts = field(default_factory=Counts)
    num_breaches: int = 0


def begin(now: float, candidate: Reading, stable: Reading) -> Trial:
    """A trial that counts from these readings on."""
    return Trial(now, dict(candidate), dict(stable))


def step(
    trial: Trial, now: float, candidate: Reading, stable: Reading, *, limits: Limits, failed: str | None = None
) -> tuple[Trial, Decision]:
    """Take two new readings; `failed` says why the revision on trial cannot run at all, where that is known."""
    look = _Look(now, since(trial.candidate, candidate), since(trial.stable, stable))
    looks = tuple(found for found in (*trial.looks, look) if found.at > now - limits.window_s)
    ours = sum((found.candidate for found in looks), Counts())
    theirs = sum((found.stable for found in looks), Counts())
    trial = replace(
        trial,
        candidate=dict(candidate),
        stable=dict(stable),
        looks=looks,
        num_requests=trial.num_requests + look.candidate.num_requests,
    )
    if failed is not None:
        return trial, Decision("roll back", f"it cannot run: {failed}", ours, theirs, trial.num_breaches)
    if ours.num_requests >= limits.min_requests:
        trial, reason = _judged(trial, ours, theirs, limits)
    else:
        reason = f"{ours.num_requests} of the {limits.min_requests} requests that a look needs"
    verdict: Verdict = "wait"
    if trial.num_breaches >= limits.num_breaches:
        verdict = "roll back"
    elif (
        trial.num_requests >= limits.min_requests and not trial.num_breaches and now - trial.began_at >= limits.trial_s
    ):
        verdict, reason = "promote", f"{trial.num_requests} requests in {now - trial.began_at:.0f} s were as good"
    return trial, Decision(verdict, reason, ours, theirs, trial.num_breaches)


def since(before: Reading, now: Reading) -> Counts:
    """What was answered between two readings. An instance that is new, or was restarted, counts from its beginning."""
    total = Counts()
    for instance, counts in now.items():
        earlier = before.get(instance, Counts())
        total += counts if counts.num_requests < earlier.num_requests else counts - earlier
    return total


def _judged(trial: Trial, ours: Counts, theirs: Counts, limits: Limits) -> tuple[Trial, str]:
    """Count the window as a breach, as clear, or as neither."""
    allowed_rate = theirs.error_rate + limits.error_rate_margin
    if _lower_bound(ours.num_errors, ours.num_requests) > allowed_rate:
        reason = f"error rate {ours.error_rate:.1%} against {theirs.error_rate:.1%} of the stable revision"
        return replace(trial, num_breaches=trial.num_breaches + 1), reason
    is_clear = ours.error_rate <= theirs.error_rate + limits.error_rate_margin * limits.clear_share
    if min(ours.num_timed, theirs.num_timed) >= _MIN_FOR_P99:
        p99_s, stable_s = ours.quantile_s(0.99), theirs.quantile_s(0.99)
        allowed_s = stable_s * limits.p99_factor + limits.p99_margin_s
        if p99_s > allowed_s:
            reason = f"p99 {p99_s * 1000:.0f} ms against {stable_s * 1000:.0f} ms of the stable revision"
            return replace(trial, num_breaches=trial.num_breaches + 1), reason
        is_clear = is_clear and p99_s <= allowed_s * limits.clear_share
    if is_clear:
        return replace(trial, num_breaches=0), "as good as the stable revision"
    return trial, "within the limits, but not clearly"


def _lower_bound(num_errors: int, num_requests: int) -> float:
    """Wilson's lower bound of a proportion (E. B. Wilson, JASA 22, 1927, 209-212)."""
    n, p, z = num_requests, num_errors / num_requests, _Z
    centre = p + z * z / (2 * n)
    spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (centre - spread) / (1 + z * z / n)


def _combined(a: Counts, b: Counts, sign: int) -> Counts:
    bounds = sorted({bound for counts in (a, b) for bound, _ in counts.buckets})
    buckets = tuple((bound, _at(a, bound) + sign * _at(b, bound)) for bound in bounds)
    return Counts(a.num_requests + sign * b.num_requests, a.num_errors + sign * b.num_errors, buckets)


def _at(counts: Counts, bound: float) -> int:
    """Answers that took at most `bound`, from the nearest bucket below where there is none for it."""
    return max((count for upper, count in counts.buckets if upper <= bound), default=0)
