"""What a run leaves behind: counts and histograms, of fixed size however long it lasts, mergeable between processes."""

from collections import Counter

import msgspec

from loadgen.histogram import Encoded, Histogram
from loadgen.sample import Outcome, Sample

_MOST_ERRORS = 20  # different messages that are kept; the rest are counted together
_MOST_PHASES = 32
_OTHER_ERRORS = "other errors"


class Counts(msgspec.Struct):
    """The numbers of a recorder; `cpu_s` and `span_s` add up over processes, the rest as named."""

    num_within_slo: int = 0
    num_late: int = 0
    num_unfinished: int = 0
    num_bytes: int = 0
    statuses: Counter[int] = msgspec.field(default_factory=Counter)
    batch_sizes: Counter[int] = msgspec.field(default_factory=Counter)
    errors: Counter[str] = msgspec.field(default_factory=Counter)
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    busiest: float = 0.0


class _Message(msgspec.Struct):
    counts: Counts
    lateness: Encoded
    latency: list[tuple[Outcome, bool | None, Encoded]]
    service: list[tuple[Outcome, bool | None, Encoded]]
    phases: dict[str, Encoded]


Key = tuple[Outcome, bool | None]


class Recorder:
    """Counts samples as they come.

    Latency runs from the instant a request was due, service time from when it was sent, lateness from due to sent;
    latency and service time are kept apart by outcome and by cold (True), warm (False) and unsaid (None).
    """

    def __init__(self, slo_ms: float | None = None, late_after_ms: float | None = None) -> None:
        self.counts = Counts()
        self.lateness = Histogram()
        self.latency: dict[Key, Histogram] = {}
        self.service: dict[Key, Histogram] = {}
        self.phases: dict[str, Histogram] = {}
        self._slo_s = None if slo_ms is None else slo_ms / 1e3
        self._late_after_s = None if late_after_ms is None else late_after_ms / 1e3

    @property
    def num_recorded(self) -> int:
        """How many requests were sent and came to an end."""
        return self.lateness.num

    def record(self, sample: Sample) -> None:
        """Count one request that was sent."""
        counts, key = self.counts, (sample.outcome, sample.cold)
        latency_s, lateness_s = sample.done_at - sample.planned_at, sample.sent_at - sample.planned_at
        if key not in self.latency:
            self.latency[key], self.service[key] = Histogram(), Histogram()
        self.latency[key].record(latency_s)
        self.service[key].record(sample.done_at - sample.sent_at)
        self.lateness.record(lateness_s)
        counts.num_late += self._late_after_s is not None and lateness_s > self._late_after_s
        counts.num_within_slo += self._slo_s is not None and sample.outcome is Outcome.OK and latency_s <= self._slo_s
        counts.num_bytes += sample.num_bytes
        if sample.status is not None:
            counts.statuses[sample.status] += 1
        if sample.batch_size is not None:
            counts.batch_sizes[sample.batch_size] += 1
        if sample.error is not None:
            self._count_error(sample.error, 1)
        for name, duration_ms in sample.phases_ms:
            self._record_phase(name, duration_ms)

    def record_unfinished(self, num: int) -> None:
        """Count requests that were due or in flight when the run was stopped."""
        self.counts.num_unfinished += num

    def _count_error(self, message: str, num: int) -> None:
        errors = self.counts.errors
        errors[message if message in errors or len(errors) < _MOST_ERRORS else _OTHER_ERRORS] += num

    def _record_phase(self, name: str, duration_ms: float) -> None:
        if name not in self.phases:
            if len(self.phases) >= _MOST_PHASES:
                return
            self.phases[name] = Histogram()
        self.phases[name].record(duration_ms / 1e3)

    def ran(self, elapsed_s: float, cpu_s: float) -> None:
        """Note how long one process ran, from the common start to its last answer, and the CPU time it took."""
        self.counts.elapsed_s, self.counts.cpu_s = elapsed_s, cpu_s
        self.counts.busiest = cpu_s / elapsed_s if elapsed_s > 0 else 0.0

    def merge(self, other: "Recorder") -> None:
        """Add what another process recorded in the same run."""
        mine, theirs = self.counts, other.counts
        mine.num_within_slo += theirs.num_within_slo
        mine.num_late += theirs.num_late
        mine.num_unfinished += theirs.num_unfinished
        mine.num_bytes += theirs.num_bytes
        mine.statuses.update(theirs.statuses)
        mine.batch_sizes.update(theirs.batch_sizes)
        for message, num in theirs.errors.items():
            self._count_error(message, num)
        mine.elapsed_s = max(mine.elapsed_s, theirs.elapsed_s)
        mine.cpu_s += theirs.cpu_s
        mine.busiest = max(mine.busiest, theirs.busiest)
        self.lateness.merge(other.lateness)
        for target, source in ((self.latency, other.latency), (self.service, other.service)):
            for key, histogram in source.items():
                target.setdefault(key, Histogram()).merge(histogram)
        for name, histogram in other.phases.items():
            if name in self.phases or len(self.phases) < _MOST_PHASES:
                self.phases.setdefault(name, Histogram()).merge(histogram)

    def encode(self) -> bytes:
        """Return this recorder as JSON, for the process that merges."""
        return msgspec.json.encode(
            _Message(
                counts=self.counts,
                lateness=self.lateness.encode(),
                latency=[(*key, histogram.encode()) for key, histogram in self.latency.items()],
                service=[(*key, histogram.encode()) for key, histogram in self.service.items()],
                phases={name: histogram.encode() for name, histogram in self.phases.items()},
            )
        )

    @classmethod
    def decode(cls, message: bytes) -> "Recorder":
        """Return the recorder that was encoded. Raises msgspec.DecodeError for what is none."""
        decoded = msgspec.json.decode(message, type=_Message)
        recorder = cls()
        recorder.counts = decoded.counts
        recorder.lateness = Histogram.decode(decoded.lateness)
        recorder.latency = {(outcome, cold): Histogram.decode(data) for outcome, cold, data in decoded.latency}
        recorder.service = {(outcome, cold): Histogram.decode(data) for outcome, cold, data in decoded.service}
        recorder.phases = {name: Histogram.decode(data) for name, data in decoded.phases.items()}
        return recorder
