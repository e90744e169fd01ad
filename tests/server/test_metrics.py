from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from faas.engine.batch import Report
from faas.messages import Call, Context
from faas.metrics import Histogram, Metrics, outcome_of


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def samples(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Return each sample by its name and the value of the label that is its own."""
    found = {}
    for family in text_string_to_metric_families(metrics.expose().decode()):
        for sample in family.samples:
            assert sample.labels.pop("function") == "f"
            assert sample.labels.pop("version") == "2"
            found[sample.name, next(iter(sample.labels.values()), "")] = sample.value
    return found


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "ok"),
        (400, "bad_input"),
        (422, "bad_input"),
        (429, "refused"),
        (503, "refused"),
        (499, "gone"),
        (504, "deadline"),
        (500, "error"),
        (502, "error"),
    ],
)
def test_every_status_has_an_outcome(status, outcome):
    assert outcome_of(status) == outcome


def test_a_histogram_counts_up_to_and_with_its_bounds():
    held = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        held.observe(value)
    assert held.cumulative() == [("1.0", 2), ("2.0", 4), ("+Inf", 5)]
    assert held.total == 14.0


def test_what_a_call_and_a_batch_leave_behind():
    clock = Clock()
    metrics = Metrics("f", "2", slo_s=0.5, num_gpus=2, clock=clock)
    call = Call({}, Context("r"))
    call.queued_at, call.picked_at, call.started_at, call.ended_at = 10.0, 10.2, 10.2, 10.3
    metrics.answered(call, 10.0, 10.4)
    metrics.answered(call, 10.0, 10.6)
    metrics.failed(429, 10.0, 10.1)
    metrics.batch_done(Report(3, cpu_s=0.25, runs=[(3, 0.1), (1, 0.1)]))
    metrics.queue_depth = lambda: 4
    metrics.num_inflight = 6
    metrics.snapshot_bytes = 4096
    metrics.start_phases_s, metrics.num_cold_starts = {"fork": 0.006}, 1
    clock.now += 5
    found = samples(metrics)
    assert found["faas_requests_total", "ok"] == 2
    assert found["faas_requests_total", "refused"] == 1
    assert found["faas_request_seconds_count", ""] == 3
    assert found["faas_request_seconds_sum", ""] == pytest.approx(1.1)
    assert found["faas_queue_seconds_sum", ""] == pytest.approx(0.4)
    assert found["faas_exec_seconds_sum", ""] == pytest.approx(0.2)
    assert found["faas_batch_size_count", ""] == 2
    assert found["faas_batch_size_sum", ""] == 4
    assert found["faas_slo_met_total", ""] == 1
    assert found["faas_model_cpu_seconds_total", ""] == 0.25
    assert found["faas_queue_depth", ""] == 4
    assert found["faas_inflight", ""] == 6
    assert found["faas_snapshot_bytes", ""] == 4096
    assert found["faas_cold_starts_total", ""] == 1
    assert found["faas_cold_start_seconds", "fork"] == 0.006
    assert found["faas_gpu_seconds_total", ""] == 10
    assert found["faas_instances", "starting"] == 1
    assert found["faas_instances", "ready"] == 0
    assert found["process_cpu_seconds_total", ""] > 0
    assert found["process_resident_memory_bytes", ""] > 2**20


def test_without_a_promise_none_is_kept():
    clock = Clock()
    metrics = Metrics("f", "2", clock=clock)
    metrics.answered(Call({}, Context("r")), clock.now, clock.now)
    assert samples(metrics)["faas_requests_total", "ok"] == 1
    assert samples(metrics)["faas_slo_met_total", ""] == 0
