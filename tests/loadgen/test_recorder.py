import random
from typing import Any

import msgspec
import pytest

from loadgen.histogram import Histogram
from loadgen.recorder import Recorder
from loadgen.sample import Outcome, Sample


def make_sample(
    outcome: Outcome = Outcome.OK, due: float = 0.0, sent: float = 0.0, done: float = 1.0, **said: Any
) -> Sample:
    return Sample(planned_at=due, sent_at=sent, done_at=done, outcome=outcome, **said)


def draw_sample(generator: random.Random) -> Sample:
    # Multiples of 1/1024 add up to the same sum in any order.
    sent = generator.randrange(20) / 1024
    return make_sample(
        generator.choice(list(Outcome)[:-1]),
        sent=sent,
        done=sent + generator.randrange(2000) / 1024,
        status=generator.choice([None, 200, 503]),
        cold=generator.choice([None, True, False]),
        batch_size=generator.choice([None, 1, 7]),
        phases_ms=(("queue", generator.randrange(20) * 1000 / 1024),),
        num_bytes=generator.randrange(100),
        error=generator.choice([None, "refused", "reset"]),
    )


def make_recorder() -> Recorder:
    return Recorder(slo_ms=100, late_after_ms=10)


def content(recorder: Recorder) -> tuple[Any, ...]:
    return (
        msgspec.structs.asdict(recorder.counts),
        recorder.lateness.summary(),
        *(
            {key: histogram.summary() for key, histogram in histograms.items()}
            for histograms in (recorder.latency, recorder.service, recorder.phases)
        ),
    )


@pytest.fixture
def split_and_whole() -> tuple[list[Recorder], Recorder]:
    """Return three records and one of the same samples."""
    generator = random.Random(4)
    parts, whole = [make_recorder() for _ in range(3)], make_recorder()
    for index in range(3000):
        sample = draw_sample(generator)
        parts[index % 3].record(sample)
        whole.record(sample)
    return parts, whole


def test_merged_records_equal_the_record_of_all(split_and_whole: tuple[list[Recorder], Recorder]) -> None:
    (merged, *others), whole = split_and_whole
    for other in others:
        merged.merge(other)
    assert content(merged) == content(whole)
    assert merged.num_recorded == 3000


def test_a_record_reaches_another_process_as_it_was(split_and_whole: tuple[list[Recorder], Recorder]) -> None:
    _, whole = split_and_whole
    whole.record_process(elapsed_s=2.0, cpu_s=0.5)
    whole.record_unfinished(3)
    assert content(Recorder.decode(whole.encode())) == content(whole)


def test_an_empty_record_merges_and_travels() -> None:
    merged, full = make_recorder(), make_recorder()
    full.record(make_sample())
    before = content(full)
    full.merge(Recorder.decode(make_recorder().encode()))
    merged.merge(full)
    assert content(full) == before
    assert content(merged) == before


def test_processes_add_up_their_cpu_and_run_side_by_side() -> None:
    one, other = make_recorder(), make_recorder()
    one.record_process(elapsed_s=2.0, cpu_s=1.0)
    other.record_process(elapsed_s=4.0, cpu_s=1.0)
    one.merge(other)
    assert (one.counts.elapsed_s, one.counts.cpu_s, one.counts.busiest) == (4.0, 2.0, 0.5)


def test_a_run_stopped_before_it_began_took_no_time() -> None:
    recorder = make_recorder()
    recorder.record_process(elapsed_s=-0.05, cpu_s=0.001)
    assert (recorder.counts.elapsed_s, recorder.counts.busiest) == (0.0, 0.0)


def test_the_objective_is_met_from_when_a_request_was_due_and_only_by_ok_answers() -> None:
    recorder = make_recorder()
    recorder.record(make_sample(done=0.1))
    recorder.record(make_sample(done=0.1001))
    recorder.record(make_sample(due=0.0, sent=0.09, done=0.11))
    recorder.record(make_sample(Outcome.OVERLOADED, done=0.001))
    assert recorder.counts.num_within_slo == 1


def test_late_is_beyond_the_bound() -> None:
    recorder = make_recorder()
    for sent in (0.0, 0.01, 0.0101, 0.5):
        recorder.record(make_sample(sent=sent))
    assert recorder.counts.num_late == 2
    lateness = recorder.lateness.summary()
    assert lateness is not None
    assert (lateness.num, lateness.max_ms) == (4, 500.0)


def test_latency_is_from_due_and_service_from_sent() -> None:
    recorder = make_recorder()
    recorder.record(make_sample(due=1.0, sent=1.5, done=1.75, cold=True))
    key = (Outcome.OK, True)
    latency, service = recorder.latency[key].summary(), recorder.service[key].summary()
    assert latency is not None
    assert service is not None
    assert (latency.mean_ms, service.mean_ms) == (750.0, 250.0)


def test_a_record_stays_small_whatever_comes() -> None:
    def filled(num: int) -> Recorder:
        recorder = make_recorder()
        for index in range(num):
            recorder.record(make_sample(error=f"error {index}", phases_ms=((f"phase {index}", 1.0),)))
        return recorder

    recorder = filled(1000)
    recorder.merge(filled(2000))
    assert len(recorder.phases) == 32
    assert len(recorder.counts.errors) == 21
    assert sum(recorder.counts.errors.values()) == 3000


def test_what_is_no_record_is_refused() -> None:
    for record in (b"", b"{}", b"ready"):
        with pytest.raises(msgspec.DecodeError):
            Recorder.decode(record)


def test_percentiles_are_within_a_thousandth() -> None:
    histogram = Histogram()
    for index in range(1, 100_001):
        histogram.record(index / 1e5)
    summary = histogram.summary()
    assert summary is not None
    assert (summary.num, summary.max_ms) == (100_000, 1000.0)
    assert [summary.p50_ms, summary.p90_ms, summary.p95_ms, summary.p99_ms, summary.p99_9_ms] == pytest.approx(
        [500, 900, 950, 990, 999], rel=1e-3
    )
    assert summary.mean_ms == pytest.approx(500.005)


def test_a_percentile_never_exceeds_the_maximum() -> None:
    histogram = Histogram()
    histogram.record(1.2345678)
    summary = histogram.summary()
    assert summary is not None
    assert summary.p50_ms == summary.p99_9_ms == summary.max_ms == pytest.approx(1234.5678)


@pytest.mark.parametrize(
    ("num", "ranks"),
    [(1, (1, 1, 1, 1, 1)), (2, (1, 2, 2, 2, 2)), (60, (30, 54, 57, 60, 60)), (160, (80, 144, 152, 159, 160))],
)
def test_percentiles_of_few_leave_out_no_slow_one(num: int, ranks: tuple[int, ...]) -> None:
    histogram = Histogram()
    for index in range(1, num + 1):
        histogram.record(index / 1e3)
    summary = histogram.summary()
    assert summary is not None
    found = (summary.p50_ms, summary.p90_ms, summary.p95_ms, summary.p99_ms, summary.p99_9_ms)
    assert found == pytest.approx(ranks, rel=1e-3)


def test_durations_outside_the_range_are_kept_at_its_ends() -> None:
    histogram = Histogram()
    for duration_s in (-1e-9, 0.0, 7200.0):
        histogram.record(duration_s)
    summary = histogram.summary()
    assert summary is not None
    assert (summary.num, summary.p50_ms, summary.max_ms) == (3, 0.0, 7_200_000.0)
    assert summary.p99_ms == pytest.approx(3_600_000, rel=1e-3)


def test_nothing_recorded_has_no_summary() -> None:
    assert Histogram().summary() is None
