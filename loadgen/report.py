"""What a run showed: the numbers of its record, derived once."""

from dataclasses import asdict, dataclass
from typing import Any

from loadgen.histogram import Histogram, Summary
from loadgen.plan import OpenLoop, Plan
from loadgen.recorder import Key, Recorder
from loadgen.sample import Outcome

_LATE_SHARE = 0.01  # above it the figures say more of the client than of the server
_BUSY_SHARE = 0.9  # of one core: beyond it the client's own queue is part of what it measures


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run.

    `elapsed_s` runs from the start, or the end of the warm-up, to the last answer, and rates are over it;
    `target_per_s` is the rate asked for.
    `num_offered` are the requests that were due (in a closed loop: sent), `num_completed` those with a whole answer of
    any status; `outcomes` has every class, also those that did not occur.

    `latency` runs from the instant a request was due, `service` from when it was sent; both are of the requests
    that ended "ok", and `latency_by_outcome` has the rest. In a closed loop the two are equal, since a request is
    due when its caller is free. `cold_latency` and `warm_latency` are of "ok" answers that said X-Cold-Start: 1 or 0.
    `lateness` is from due to sent, whether for a cap or for a slow client; None in a closed loop.

    `slo_attainment` is the share of all offered requests that ended "ok" within `slo_ms` of when they were due;
    `cold_fraction` the share that said X-Cold-Start: 1, None where no answer said either. `mean_batch_size` is that of
    the server's batches, not of the requests: n answers that say batch size b are n/b batches.
    Of answers of server-sent events that ended "ok", `ttft` is the time to the first token, from due to the first chunk
    with content, `tpot` the time per output token after that chunk, and `num_tokens` what the server counted in its
    `usage`, over all; an answer in which an event says that it failed did not end "ok".
    `client_cpu_s` adds up over the load processes. Shares are 0 to 1; summaries are None where nothing was recorded.
    """

    mode: str
    seed: int
    num_processes: int
    warmup_s: float
    elapsed_s: float
    num_offered: int
    num_completed: int
    target_per_s: float | None
    completed_per_s: float
    ok_per_s: float
    outcomes: dict[str, int]
    statuses: dict[int, int]
    errors: dict[str, int]
    latency: Summary | None
    service: Summary | None
    latency_by_outcome: dict[str, Summary]
    cold_latency: Summary | None
    warm_latency: Summary | None
    num_cold: int
    cold_fraction: float | None
    slo_ms: float | None
    slo_attainment: float | None
    mean_batch_size: float | None
    phases: dict[str, Summary]
    num_streams: int
    ttft: Summary | None
    tpot: Summary | None
    num_tokens: int
    tokens_per_s: float
    lateness: Summary | None
    num_late: int
    late_fraction: float
    num_bytes: int
    client_cpu_s: float
    stopped_early: bool
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values that `json.dumps` takes."""
        return asdict(self)


def summarize(plan: Plan, recorder: Recorder, *, stopped_early: bool = False) -> Report:
    """Derive the report of a run from its plan and its record."""
    counts, latency = recorder.counts, recorder.latency
    outcomes = {str(outcome): _merged(latency, outcome=outcome).num for outcome in Outcome}
    num_sent = sum(outcomes.values())
    outcomes[Outcome.UNFINISHED] = counts.num_unfinished
    num_offered = num_sent + counts.num_unfinished
    num_completed = sum(counts.statuses.values())
    num_cold = _merged(latency, cold=True).num
    is_open = isinstance(plan.load, OpenLoop)
    says_cold = any(cold is not None for _, cold in latency)
    return Report(
        mode="open" if is_open else "closed",
        seed=plan.seed,
        num_processes=plan.num_processes,
        warmup_s=plan.warmup_s,
        elapsed_s=counts.elapsed_s,
        num_offered=num_offered,
        num_completed=num_completed,
        target_per_s=plan.load.rate_per_s if isinstance(plan.load, OpenLoop) else None,
        completed_per_s=_share(num_completed, counts.elapsed_s),
        ok_per_s=_share(outcomes[Outcome.OK], counts.elapsed_s),
        outcomes=outcomes,
        statuses=dict(sorted(counts.statuses.items())),
        errors=counts.errors,
        latency=_merged(latency, outcome=Outcome.OK).summary(),
        service=_merged(recorder.service, outcome=Outcome.OK).summary(),
        latency_by_outcome=_by_outcome(latency),
        cold_latency=_merged(latency, outcome=Outcome.OK, cold=True).summary(),
        warm_latency=_merged(latency, outcome=Outcome.OK, cold=False).summary(),
        num_cold=num_cold,
        cold_fraction=_share(num_cold, num_offered) if says_cold else None,
        slo_ms=plan.slo_ms,
        slo_attainment=None if plan.slo_ms is None else _share(counts.num_within_slo, num_offered),
        mean_batch_size=_mean_batch_size(counts.batch_sizes),
        phases={name: summary for name, phase in recorder.phases.items() if (summary := phase.summary())},
        num_streams=counts.num_streams,
        ttft=recorder.ttft.summary(),
        tpot=recorder.tpot.summary(),
        num_tokens=counts.num_tokens,
        tokens_per_s=_share(counts.num_tokens, counts.elapsed_s),
        lateness=recorder.lateness.summary() if is_open else None,
        num_late=counts.num_late,
        late_fraction=_share(counts.num_late, num_sent),
        num_bytes=counts.num_bytes,
        client_cpu_s=counts.cpu_s,
        stopped_early=stopped_early,
        warnings=_warnings(plan, recorder, num_sent),
    )


def _merged(histograms: dict[Key, Histogram], outcome: Outcome | None = None, cold: bool | None = None) -> Histogram:
    """Add up the histograms of an outcome and of cold or warm answers; None takes in all."""
    total = Histogram()
    for (each_outcome, each_cold), histogram in histograms.items():
        if outcome in (None, each_outcome) and cold in (None, each_cold):
            total.merge(histogram)
    return total


def _by_outcome(latency: dict[Key, Histogram]) -> dict[str, Summary]:
    summaries = {str(outcome): _merged(latency, outcome=outcome).summary() for outcome in Outcome}
    return {outcome: summary for outcome, summary in summaries.items() if summary is not None}


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _mean_batch_size(num_answers_by_size: dict[int, int]) -> float | None:
    num_batches = sum(num / size for size, num in num_answers_by_size.items())
    return sum(num_answers_by_size.values()) / num_batches if num_batches else None


def _warnings(plan: Plan, recorder: Recorder, num_sent: int) -> tuple[str, ...]:
    counts, load = recorder.counts, plan.load
    warnings = []
    if isinstance(load, OpenLoop) and counts.num_late > _LATE_SHARE * num_sent:
        late = f"{counts.num_late} of {num_sent} requests were sent over {load.late_after_ms:g} ms after they were due"
        if load.max_concurrency is None:
            warnings.append(f"{late}: the client cannot keep this rate; lower it or use more processes")
        else:
            warnings.append(
                f"{late}: at most {load.max_concurrency} were let be in flight; raise the cap or lower the rate"
            )
    if counts.busiest > _BUSY_SHARE:
        warnings.append(
            f"a load process used {counts.busiest:.0%} of a core and may add to the latency itself; use more processes"
        )
    if num_unsent := _merged(recorder.latency, outcome=Outcome.UNSENT).num:
        warnings.append(
            f"{num_unsent} of {num_sent} requests were not sent, since this machine had no descriptor or port left for "
            "them: raise its limit (ulimit -n), lower the rate, or use more processes"
        )
    if counts.num_empty_streams:
        warnings.append(f"{counts.num_empty_streams} of {counts.num_streams} streams ended well and had no content")
    return tuple(warnings)
