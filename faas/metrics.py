"""What one instance counts, and how /metrics writes it.

The hot path adds to plain integers and bisects fixed bounds: no locks, no labels to look up, since all of it belongs to
the event loop's thread. prometheus-client reads the numbers when it is asked for them.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from faas.clock import Clock, monotonic
from faas.messages import Call

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from faas.engine.batch import Report
    from faas.engine.cached import Computation
    from faas.engine.clock_cache import ClockCache
    from faas.engine.selection.assembly import Selector

_K = TypeVar("_K", bound=str)

Outcome = Literal["ok", "bad_input", "refused", "deadline", "gone", "error"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("ok", "bad_input", "refused", "deadline", "gone", "error")
STATES: Final = ("starting", "ready", "draining", "failed")
CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0),
)
_SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)


def outcome_of(status: int) -> Outcome:
    """Return how a request that was answered with `status` is counted."""
    if status < 400:
        return "ok"
    if status in (429, 503):
        return "refused"
    if status == 504:
        return "deadline"
    if status == 499:
        return "gone"
    return "bad_input" if status < 500 else "error"


class Histogram:
    """Counts by upper bound, and a sum. `bounds` rise; one more count stands for what is above the last."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Return each bound as Prometheus writes it with the number of values up to it."""
        names = [*(str(bound) for bound in self.bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self.counts)), strict=True))


class Metrics:
    """The numbers of one instance of one function. Durations are in seconds."""

    def __init__(
        self,
        function: str,
        version: str,
        *,
        slo_s: float | None = None,
        num_gpus: int = 0,
        clock: Clock = monotonic,
    ) -> None:
        self.function = function
        self.version = version
        self.requests: dict[Outcome, int] = dict.fromkeys(OUTCOMES, 0)
        self.request_s = Histogram(_SECONDS)
        self.queue_s = Histogram(_SECONDS)
        self.exec_s = Histogram(_SECONDS)
        self.batch_size = Histogram(_SIZES)
        self.num_inflight = 0
        self.num_cold_starts = 0
        self.start_phases_s: dict[str, float] = {}
        self.num_slo_met = 0
        self.snapshot_bytes = 0
        self.versions: dict[str, float] = {}
        self.loop_lag_s = 0.0
        self.state: str = "starting"
        self.queue_depth: Callable[[], int] = lambda: 0
        self.cache: ClockCache[Computation] | None = None
        self.selector: Selector | None = None
        self.model_cpu_s = 0.0
        self._slo_s = slo_s if slo_s is not None else float("-inf")  # nothing is promised, and nothing kept
        self._num_gpus = num_gpus
        self._clock = clock
        self._began_at = clock()
        self._registry: Any = None

    def begin(self, phases_s: dict[str, float]) -> None:
        """Count for an instance that begins now. `phases_s` fills with the phases of its start."""
        self.start_phases_s = phases_s
        self._began_at = self._clock()

    def answered(self, call: Call, arrived_at: float, now: float) -> None:
        """Count a call that was answered well."""
        self.requests["ok"] += 1
        taken_s = now - arrived_at
        self.request_s.observe(taken_s)
        if call.started_at:
            self.queue_s.observe(call.picked_at - call.queued_at)
            self.exec_s.observe(call.ended_at - call.started_at)
        if taken_s <= self._slo_s:
            self.num_slo_met += 1

    def batch_done(self, report: Report) -> None:
        """Count the runs of a batch, and the CPU time of the model thread inside the handler."""
        for size, _ in report.runs:
            self.batch_size.observe(size)
        self.model_cpu_s += report.cpu_s

    def failed(self, status: int, arrived_at: float, now: float) -> None:
        """Count a request that was answered with an error."""
        self.requests[outcome_of(status)] += 1
        self.request_s.observe(now - arrived_at)

    def gpu_s(self) -> float:
        """Return the GPU seconds this instance has held: its GPUs times its age."""
        return self._num_gpus * (self._clock() - self._began_at)

    def expose(self) -> bytes:
        """Write everything in Prometheus' text format."""
        from prometheus_client import CollectorRegistry, generate_latest  # 50 ms that no cold start should pay

        if self._registry is None:
            self._registry = CollectorRegistry(auto_describe=False)
            self._registry.register(_Collector(self))
        return generate_latest(self._registry)


class _Collector:
    """Reads `Metrics` for prometheus-client."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._labels = {"function": metrics.function, "version": metrics.version}

    def describe(self) -> Iterator[Metric]:
        """Name nothing ahead: the registry is this collector's own."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield each metric as it stands."""
        m = self._metrics
        yield self._counter_by("faas_requests", "Requests by outcome", "outcome", m.requests)
        yield self._histogram("faas_request_seconds", "From arrival to the answer", m.request_s)
        yield self._histogram("faas_queue_seconds", "Waiting for a batch", m.queue_s)
        yield self._histogram("faas_exec_seconds", "In the handler, as each item saw it", m.exec_s)
        yield self._histogram("faas_batch_size", "Items in a call of the handler", m.batch_size)
        yield self._gauge("faas_queue_depth", "Items that wait", m.queue_depth())
        yield self._gauge("faas_inflight", "Requests that are not answered yet", m.num_inflight)
        yield self._counter("faas_cold_starts", "Starts on demand", m.num_cold_starts)
        yield self._by("faas_cold_start_seconds", "Phases of the start of this instance", "phase", m.start_phases_s)
        yield self._by("faas_instances", "1 for the state it is in", "state", {s: s == m.state for s in STATES})
        yield self._gauge("faas_snapshot_bytes", "Bytes of the snapshot it was thawed from", m.snapshot_bytes)
        yield self._counter("faas_gpu_seconds", "GPU seconds held", m.gpu_s())
        yield self._counter("faas_slo_met", "Answers within the latency objective", m.num_slo_met)
        yield self._counter("faas_model_cpu_seconds", "CPU seconds of the thread inside the handler", m.model_cpu_s)
        yield self._gauge("faas_loop_lag_seconds", "How late the event loop last ran", m.loop_lag_s)
        yield self._counter("process_cpu_seconds", "CPU seconds of the process", time.process_time())
        yield self._gauge("process_resident_memory_bytes", "Resident memory", _resident_bytes())
        if m.versions:
            yield self._by("faas_versions", "Versions of the function's state that are in a state", "state", m.versions)
        if m.cache is not None:
            yield from self._of_cache(m.cache)
        if m.selector is not None:
            yield from self._of_selection(m.selector)

    def _of_cache(self, cache: ClockCache[Computation]) -> Iterator[Metric]:
        yield self._counter("faas_cache_hits", "Answers that cost no computation of their own", cache.num_hits)
        yield self._counter("faas_cache_misses", "Answers that were computed", cache.num_misses)
        yield self._gauge("faas_cache_bytes", "Bytes of the answers that are kept", cache.num_bytes)

    def _of_selection(self, selector: Selector) -> Iterator[Metric]:
        counts, learner = selector.counts, selector.learner
        yield self._counter_by("faas_variant_requests", "Calls that a variant was asked", "variant", counts.variants)
        if learner is None:
            return
        yield self._counter_by("faas_default_answers", "Default answers by reason", "reason", counts.defaults)
        used = {"used": learner.num_used, "unknown": learner.num_unknown}
        yield self._counter_by("faas_feedback", "Feedback that was learned from, or of no known call", "outcome", used)
        yield self._by("faas_variant_share", "Share of a variant without a context", "variant", learner.shares(""))

    def _histogram(self, name: str, text: str, held: Histogram) -> Metric:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(name, text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), held.cumulative(), held.total)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(name, text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(name, text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _counter_by(self, name: str, text: str, label: str, values: Mapping[_K, float]) -> Metric:
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(name, text, labels=[*self._labels, label])
        for key, value in values.items():
            family.add_metric([*self._labels.values(), key], value)
        return family

    def _by(self, name: str, text: str, label: str, values: dict[str, float]) -> Metric:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(name, text, labels=[*self._labels, label])
        for key, value in values.items():
            family.add_metric([*self._labels.values(), key], value)
        return family


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as held:
            pages = int(held.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    import resource  # beside the only place that needs it

    return pages * resource.getpagesize()
