import json
import math

import pytest
from rich.console import Console

from loadgen import ClosedLoop, OpenLoop, Outcome, Report, Workload
from loadgen.plan import Plan
from loadgen.recorder import Recorder
from loadgen.render import render
from loadgen.report import summarize
from tests.loadgen.test_recorder import make_sample

OPEN = OpenLoop(rate_per_s=10)


def make_plan(load: OpenLoop | ClosedLoop = OPEN) -> Plan:
    return Plan(load=load, workload=Workload(url="http://127.0.0.1:8000/"), duration_s=10, slo_ms=100, seed=3)


def make_recorder() -> Recorder:
    return Recorder(slo_ms=100, late_after_ms=10)


@pytest.fixture
def mixed() -> Recorder:
    """Return a record of 6 warm, 2 cold and 1 turned away, 1 time-out, and 2 unfinished."""
    recorder = make_recorder()
    for _ in range(6):
        recorder.record(make_sample(done=0.05, status=200, cold=False, batch_size=4, phases_ms=(("exec", 40.0),)))
    for _ in range(2):
        recorder.record(make_sample(done=2.0, status=200, cold=True, batch_size=1))
    recorder.record(make_sample(Outcome.OVERLOADED, done=0.001, status=429))
    recorder.record(make_sample(Outcome.TIMEOUT, done=60.0, error="TimeoutError"))
    recorder.record_unfinished(2)
    recorder.record_process(elapsed_s=5.0, cpu_s=0.5)
    return recorder


def test_every_offered_request_counts_once(mixed: Recorder) -> None:
    report = summarize(make_plan(), mixed)
    assert report.num_offered == 12
    assert {outcome: num for outcome, num in report.outcomes.items() if num} == {
        "ok": 8,
        "overloaded": 1,
        "timeout": 1,
        "unfinished": 2,
    }
    assert set(report.outcomes) == set(Outcome)
    assert (report.num_completed, report.statuses) == (9, {200: 8, 429: 1})
    assert (report.completed_per_s, report.ok_per_s) == (9 / 5, 8 / 5)


def test_attainment_is_of_all_offered(mixed: Recorder) -> None:
    assert summarize(make_plan(), mixed).slo_attainment == 6 / 12


def test_cold_and_warm_are_apart(mixed: Recorder) -> None:
    report = summarize(make_plan(), mixed)
    assert (report.num_cold, report.cold_fraction) == (2, 2 / 12)
    assert report.cold_latency is not None
    assert report.warm_latency is not None
    assert (report.cold_latency.num, report.cold_latency.max_ms) == (2, 2000.0)
    assert (report.warm_latency.num, report.warm_latency.max_ms) == (6, 50.0)


def test_latency_is_of_ok_answers_and_the_rest_stands_beside_it(mixed: Recorder) -> None:
    report = summarize(make_plan(), mixed)
    assert report.latency is not None
    assert (report.latency.num, report.latency.max_ms) == (8, 2000.0)
    assert {outcome: summary.num for outcome, summary in report.latency_by_outcome.items()} == {
        "ok": 8,
        "overloaded": 1,
        "timeout": 1,
    }


def test_mean_batch_is_over_batches(mixed: Recorder) -> None:
    # 6 answers of batches of 4 are 1.5 batches, 2 of batches of 1 are 2: 8 answers in 3.5 batches.
    assert summarize(make_plan(), mixed).mean_batch_size == pytest.approx(8 / 3.5)


def test_a_server_that_says_nothing_leaves_nothing_to_say() -> None:
    recorder = make_recorder()
    recorder.record(make_sample(done=0.05, status=200))
    report = summarize(make_plan(), recorder)
    assert (report.cold_fraction, report.cold_latency, report.warm_latency) == (None, None, None)
    assert report.mean_batch_size is None
    assert report.phases == {}


def test_an_empty_run_has_a_report() -> None:
    report = summarize(make_plan(), make_recorder(), stopped_early=True)
    assert (report.num_offered, report.latency, report.slo_attainment, report.warnings) == (0, None, 0.0, ())
    assert "nothing was sent" in printed(report)


@pytest.mark.parametrize(("num_late", "warned"), [(1, False), (2, True)])
def test_more_than_one_in_a_hundred_late_is_warned_of(num_late: int, warned: bool) -> None:
    recorder = make_recorder()
    for index in range(100):
        recorder.record(make_sample(sent=0.02 if index < num_late else 0.0))
    report = summarize(make_plan(), recorder)
    assert report.late_fraction == num_late / 100
    assert [warning for warning in report.warnings if "2 of 100" in warning and "processes" in warning] == list(
        report.warnings
    )
    assert bool(report.warnings) is warned


def test_a_cap_is_named_as_what_held_requests_back() -> None:
    recorder = make_recorder()
    recorder.record(make_sample(sent=0.5))
    (warning,) = summarize(make_plan(OpenLoop(rate_per_s=10, max_concurrency=3)), recorder).warnings
    assert "at most 3" in warning


def test_a_closed_loop_is_never_late() -> None:
    recorder = Recorder(slo_ms=100)
    recorder.record(make_sample(sent=0.5))
    report = summarize(make_plan(ClosedLoop(num_callers=1)), recorder)
    assert (report.mode, report.lateness, report.num_late, report.warnings) == ("closed", None, 0, ())


def test_a_client_that_fills_its_core_is_warned_of() -> None:
    recorder = make_recorder()
    recorder.record_process(elapsed_s=1.0, cpu_s=0.95)
    (warning,) = summarize(make_plan(), recorder).warnings
    assert "95%" in warning


def test_a_report_is_plain_values(mixed: Recorder) -> None:
    report = json.loads(json.dumps(summarize(make_plan(), mixed).to_dict(), allow_nan=False))
    assert report["outcomes"]["timeout"] == 1
    assert report["statuses"]["429"] == 1
    assert math.isclose(report["cold_latency"]["p99_9_ms"], 2000, rel_tol=1e-3)
    assert report["seed"] == 3


def printed(report: Report) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(render(report))
    return capture.get()


def test_a_person_reads_what_matters(mixed: Recorder) -> None:
    text = printed(summarize(make_plan(), mixed, stopped_early=True))
    for part in (
        "open loop, 10/s asked, 5.0 s, stopped early",
        "12 offered, 9 completed, 1.8/s",
        "ok 8, overloaded 1, timeout 1, unfinished 2",
        "50.00% of all offered were ok within 100 ms",
        "2 cold starts, 16.67%",
        "mean batch size 2.3",
        "latency, cold",
        "latency, timeout",
        "server, exec",
        "1 times: TimeoutError",
    ):
        assert part in text
