"""What a run leaves behind: counts and histograms, of fixed size however long it lasts, mergeable between processes."""

from collections.abc import Hashable
from typing import TypeVar

import msgspec

from loadgen.histogram import Encoded, Histogram
from loadgen.sample import Outcome, Sample, Timing

_MAX_ERRORS = 20  # different messages that are kept; the rest are counted together
_MAX_PHASES = 32
_OTHER_ERRORS = "other errors"

Key = tuple[Outcome, bool | None]
K = TypeVar("K", bound=Hashable)


class Counts(msgspec.Struct):
    """The plain numbers of a record; `elapsed_s` and `busiest` (CPU time over elapsed) are maxima over processes."""

    num_within_slo: int = 0
    num_late: int = 0
    num_unfinished: int = 0
    num_bytes: int = 0
    num_streams: int = 0
    num_empty_streams: int = 0
    num_tokens: int = 0
    statuses: dict[int, int] = {}
    batch_sizes: dict[int, int] = {}
    errors: dict[str, int] = {}
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    busiest: float = 0.0


class _Timed(msgspec.Struct):
    outcome: Outcome
    cold: bool | None
    latency: Encoded
    service: Encoded


class _Message(msgspec.Struct):
    counts: Counts
    lateness: Encoded
    ttft: Encoded
    tpot: Encoded
    timed: list[_Timed]
    phases: dict[str, Encoded]


class Recorder:
    """Counts samples as they come.

    Latency runs from the instant a request was due, service time from when it was sent, lateness from due to sent;
    latency and service time are kept apart by outcome and by cold (True), warm (False) and unsaid (None). Of streams
    that ended well, `ttft` (time to first token) runs from due to the first content, `tpot` (time per output token) is
    `Timing.per_token_s`.
    """

    def __init__(self, slo_ms: float | None = None, late_after_ms: float | None = None) -> None:
        self.counts = Counts()
        self.lateness, self.ttft, self.tpot = Histogram(), Histogram(), Histogram()
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
            _add(counts.statuses, sample.status, 1)
        if sample.batch_size is not None:
            _add(counts.batch_sizes, sample.batch_size, 1)
        if sample.error is not None:
            self._add_error(sample.error, 1)
        for name, duration_ms in sample.phases_ms:
            if (phase := self._phase(name)) is not None:
                phase.record(duration_ms / 1e3)
        if sample.timing is not None and sample.outcome is Outcome.OK:
            self._record_stream(sample.timing, sample.planned_at)

    def _record_stream(self, timing: Timing, planned_at: float) -> None:
        self.counts.num_streams += 1
        self.counts.num_tokens += timing.num_tokens
        if timing.first_at is None:
            self.counts.num_empty_streams += 1
        else:
            self.ttft.record(timing.first_at - planned_at)
        if timing.per_token_s is not None:
            self.tpot.record(timing.per_token_s)

    def record_unfinished(self, num: int) -> None:
        """Count requests that were due or in flight when the run was stopped."""
        self.counts.num_unfinished += num

    def record_process(self, elapsed_s: float, cpu_s: float, warmup_s: float = 0.0) -> None:
        """Note how long this process ran, from the common start to its last answer, and the CPU time it took.

        What `warmup_s` of it were the warm-up is no part of the time over which rates are.
        """
        self.counts.elapsed_s, self.counts.cpu_s = max(elapsed_s - warmup_s, 0.0), cpu_s
        self.counts.busiest = cpu_s / elapsed_s if elapsed_s > 0 else 0.0

    def merge(self, other: "Recorder") -> None:
        """Add what another process recorded in the same run."""
        self._merge_counts(other.counts)
        for own, more in ((self.lateness, other.lateness), (self.ttft, other.ttft), (self.tpot, other.tpot)):
            own.merge(more)
        for mine, theirs in ((self.latency, other.latency), (self.service, other.service)):
            for key, histogram in theirs.items():
                mine.setdefault(key, Histogram()).merge(histogram)
        for name, histogram in other.phases.items():
            if (phase := self._phase(name)) is not None:
                phase.merge(histogram)

    def _merge_counts(self, theirs: Counts) -> None:
        mine = self.counts
        mine.num_within_slo += theirs.num_within_slo
        mine.num_late += theirs.num_late
        mine.num_unfinished += theirs.num_unfinished
        mine.num_bytes += theirs.num_bytes
        mine.num_streams += theirs.num_streams
        mine.num_empty_streams += theirs.num_empty_streams
        mine.num_tokens += theirs.num_tokens
        for status, num in theirs.statuses.items():
            _add(mine.statuses, status, num)
        for size, num in theirs.batch_sizes.items():
            _add(mine.batch_sizes, size, num)
        for message, num in theirs.errors.items():
            self._add_error(message, num)
        mine.elapsed_s = max(mine.elapsed_s, theirs.elapsed_s)
        mine.cpu_s += theirs.cpu_s
        mine.busiest = max(mine.busiest, theirs.busiest)

    def _add_error(self, message: str, num: int) -> None:
        errors = self.counts.errors
        _add(errors, message if message in errors or len(errors) < _MAX_ERRORS else _OTHER_ERRORS, num)

    def _phase(self, name: str) -> Histogram | None:
        if name not in self.phases and len(self.phases) < _MAX_PHASES:
            self.phases[name] = Histogram()
        return self.phases.get(name)

    def encode(self) -> bytes:
        """Return this record as JSON, for the process that merges."""
        timed = [
            _Timed(outcome, cold, histogram.encode(), self.service[outcome, cold].encode())
            for (outcome, cold), histogram in self.latency.items()
        ]
        phases = {name: histogram.encode() for name, histogram in self.phases.items()}
        lateness, ttft, tpot = (histogram.encode() for histogram in (self.lateness, self.ttft, self.tpot))
        return msgspec.json.encode(_Message(self.counts, lateness, ttft, tpot, timed, phases))

    @classmethod
    def decode(cls, record: bytes) -> "Recorder":
        """Return the record that was encoded. Raises msgspec.DecodeError for what is none."""
        message = msgspec.json.decode(record, type=_Message)
        recorder = cls()
        recorder.counts = message.counts
        recorder.lateness = Histogram.decode(message.lateness)
        recorder.ttft, recorder.tpot = Histogram.decode(message.ttft), Histogram.decode(message.tpot)
        for timed in message.timed:
            recorder.latency[timed.outcome, timed.cold] = Histogram.decode(timed.latency)
            recorder.service[timed.outcome, timed.cold] = Histogram.decode(timed.service)
        recorder.phases = {name: Histogram.decode(phase) for name, phase in message.phases.items()}
        return recorder


def _add(numbers: dict[K, int], key: K, num: int) -> None:
    numbers[key] = numbers.get(key, 0) + num
