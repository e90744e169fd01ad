"""The settings of a run, and how several processes share one."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import get_args

import msgspec

from loadgen.arrivals import Arrivals, planned_instants
from loadgen.checks import require_not_negative, require_positive, require_whole
from loadgen.errors import SettingError
from loadgen.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """Requests sent when they are due, whether or not earlier ones have been answered.

    Due at `rate_per_s` by an arrival process ("poisson", "constant", "gamma"), or, for a trace, at the given instants
    (a tuple of seconds from the start, increasing). `max_concurrency` holds requests back; they are still timed from
    when they were due. A request sent `late_after_ms` after it was due counts as late.
    Raises SettingError.
    """

    rate_per_s: float | None = None
    arrivals: Arrivals | tuple[float, ...] = "poisson"
    gamma_shape: float = 0.25
    max_concurrency: int | None = None
    late_after_ms: float = 10.0

    def __post_init__(self) -> None:
        if isinstance(self.arrivals, str):
            self._check_process()
        else:
            self._check_instants(self.arrivals)
        require_positive("gamma_shape", self.gamma_shape, "units of shape")
        require_positive("late_after_ms", self.late_after_ms, "milliseconds")
        if self.max_concurrency is not None:
            require_whole("max_concurrency", self.max_concurrency, least=1)

    def _check_process(self) -> None:
        if self.arrivals not in get_args(Arrivals):
            raise SettingError(f"arrivals is {self.arrivals!r}; give one of {', '.join(get_args(Arrivals))}")
        if self.rate_per_s is None:
            raise SettingError("rate_per_s is None; give a number of requests a second, or arrivals as instants")
        require_positive("rate_per_s", self.rate_per_s, "requests a second")

    def _check_instants(self, instants_s: tuple[float, ...]) -> None:
        if self.rate_per_s is not None:
            raise SettingError(f"rate_per_s is {self.rate_per_s!r} and arrivals are instants; give one of the two")
        if not instants_s:
            raise SettingError("arrivals is an empty tuple; give at least one instant in seconds from the start")
        before_s = 0.0
        for instant_s in instants_s:
            if not math.isfinite(instant_s) or instant_s < before_s:
                raise SettingError(
                    f"arrivals holds {instant_s!r} after {before_s!r}; give finite, increasing seconds from the start"
                )
            before_s = instant_s

    def planned(self, seed: int) -> Iterator[float]:
        """Yield the seconds from the start at which requests are due."""
        if isinstance(self.arrivals, tuple):
            return iter(self.arrivals)
        assert self.rate_per_s is not None
        return planned_instants(self.arrivals, self.rate_per_s, seed=seed, gamma_shape=self.gamma_shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """Callers that each wait for an answer, think for `think_s`, and call again.

    A stall of the server also stops its callers, so a closed loop hides how long others would have waited
    (coordinated omission). It measures throughput; for latency under a load use OpenLoop. Raises SettingError.
    """

    num_callers: int
    think_s: float = 0.0

    def __post_init__(self) -> None:
        require_whole("num_callers", self.num_callers, least=1)
        require_not_negative("think_s", self.think_s, "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a load process needs to know of a run; the same for each of them. Raises SettingError."""

    load: OpenLoop | ClosedLoop
    workload: Workload
    duration_s: float | None = None
    num_requests: int | None = None
    warmup_s: float = 0.0
    num_processes: int = 1
    timeout_s: float = 60.0
    slo_ms: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_length()
        require_positive("timeout_s", self.timeout_s, "seconds")
        require_not_negative("warmup_s", self.warmup_s, "seconds")
        if self.slo_ms is not None:
            require_positive("slo_ms", self.slo_ms, "milliseconds")
        require_whole("seed", self.seed, least=0)
        require_whole("processes", self.num_processes, least=1)
        for name, total in self._shared_out().items():
            if total < self.num_processes:
                raise SettingError(
                    f"{name} is {total} for {self.num_processes} processes; give each at least one, or use fewer"
                )

    def _check_length(self) -> None:
        if self.duration_s is not None:
            require_positive("duration_s", self.duration_s, "seconds")
        if self.num_requests is not None:
            require_whole("num_requests", self.num_requests, least=1)
        endless = isinstance(self.load, ClosedLoop) or isinstance(self.load.arrivals, str)
        if endless and self.duration_s is None and self.num_requests is None:
            raise SettingError("the run has no end: duration_s and num_requests are None; give one of the two")

    def _shared_out(self) -> dict[str, int]:
        totals = {"num_requests": self.num_requests}
        if isinstance(self.load, ClosedLoop):
            totals["num_callers"] = self.load.num_callers
        else:
            totals["max_concurrency"] = self.load.max_concurrency
        return {name: total for name, total in totals.items() if total is not None}


def planned_share(plan: Plan, load: OpenLoop, rank: int) -> Iterator[tuple[float, bytes | None]]:
    """Yield the (seconds from the start, body) of every k-th request of a run, those that process `rank` of k sends."""
    ends_s = math.inf if plan.duration_s is None else plan.warmup_s + plan.duration_s
    instants = takewhile(lambda instant: instant < ends_s, load.planned(plan.seed))
    requests = zip(_limited(instants, plan), plan.workload.take_turns(plan.seed), strict=False)
    return islice(requests, rank, None, plan.num_processes)


def _limited(instants_s: Iterator[float], plan: Plan) -> Iterator[float]:
    """Yield the instants of the warm-up, and of those after it as many as the plan has requests."""
    num_left = math.inf if plan.num_requests is None else plan.num_requests
    for instant_s in instants_s:
        if instant_s >= plan.warmup_s:
            num_left -= 1
        if num_left < 0:
            return
        yield instant_s


def share_of(total: int, rank: int, num_processes: int) -> int:
    """How many of `total` fall to process `rank`; shares differ by at most one and sum to `total`."""
    return total // num_processes + (rank < total % num_processes)


def encode(plan: Plan) -> bytes:
    """Return a plan as one line of JSON, for a load process."""
    return msgspec.json.encode({"closed": isinstance(plan.load, ClosedLoop), "plan": plan}) + b"\n"


def decode(line: bytes) -> Plan:
    """Return the plan that was encoded."""
    message = msgspec.json.decode(line)
    settings = message["plan"]
    kind: type[OpenLoop] | type[ClosedLoop] = ClosedLoop if message["closed"] else OpenLoop
    load = msgspec.convert(settings.pop("load"), kind)
    workload = msgspec.convert(settings.pop("workload"), Workload)
    return Plan(load=load, workload=workload, **settings)
