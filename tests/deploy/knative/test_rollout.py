"""A change on trial: pinned, started, watched, promoted or taken back."""

import threading
from collections.abc import Callable

import pytest

from deploy import InvalidSpec
from deploy.errors import NotAllowed, Unreachable
from deploy.knative import Cluster
from deploy.knative.metrics import counts
from deploy.knative.rest import Rest
from deploy.knative.rollout import watch
from deploy.rollback import Counts, Decision, Limits, Reading
from deploy.traffic import EVERYTHING_LATEST, Share

from .api_server import ApiServer
from .given import deployed, document

STABLE, CANDIDATE = "hello-00001", "hello-00002"
LIMITS = Limits(window_s=60, min_requests=10, num_breaches=2, trial_s=5)


def on_trial(cluster: Cluster, percent: int = 10) -> None:
    """The whole of `deploy --canary`: pin, deploy, wait, start."""
    deployed(cluster, "1")
    assert cluster.pin("hello") == STABLE
    applied = cluster.apply(document(tag="2"))
    ready = cluster.wait_ready("hello", timeout_s=20, generation=applied.generation)
    assert (ready.revision, ready.receives_traffic) == (CANDIDATE, False)
    plan = cluster.start_canary("hello", percent=percent)
    assert plan == (Share(STABLE, 100 - percent), Share(CANDIDATE, percent, "candidate"))


class Clock:
    """Goes on by a second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def reader(errors_of_candidate: int) -> Callable[[str], Reading]:
    """Twenty more requests at each reading; so many of the candidate's fail."""
    num = {STABLE: 0, CANDIDATE: 0}

    def read(revision: str) -> Reading:
        num[revision] += 1
        errors = errors_of_candidate if revision == CANDIDATE else 0
        return {f"{revision}-pod": Counts(20 * num[revision], errors * num[revision])}

    return read


def test_a_trial_that_does_well_is_promoted(rest: Rest, cluster: Cluster) -> None:
    on_trial(cluster)
    seen: list[Decision] = []
    read = reader(0)
    outcome = watch(
        rest, "default", "hello", limits=LIMITS, read=read, on_decision=seen.append, clock=Clock(), every_s=0
    )
    assert (outcome.verdict, outcome.stable, outcome.candidate) == ("promote", STABLE, CANDIDATE)
    assert outcome.traffic == cluster.describe("hello").traffic == EVERYTHING_LATEST
    assert len(seen) > 1


def test_a_trial_that_fails_requests_is_taken_back(rest: Rest, cluster: Cluster) -> None:
    on_trial(cluster)
    outcome = watch(rest, "default", "hello", limits=LIMITS, read=reader(10), clock=Clock(), every_s=0)
    assert outcome.verdict == "roll back"
    assert "error rate 50.0% against 0.0%" in outcome.reason
    assert cluster.describe("hello").traffic == (Share(STABLE, 100),)


def test_a_trial_whose_revision_breaks_is_taken_back_at_once(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    on_trial(cluster)
    revision = api.do(lambda state: state.store.get("revisions", "default", CANDIDATE))
    revision["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "ExitCode1", "message": "died"}]
    api.do(lambda state: state.store.put("revisions", revision))
    outcome = watch(rest, "default", "hello", limits=LIMITS, read=reader(0), clock=Clock(), every_s=0)
    assert (outcome.verdict, outcome.reason) == ("roll back", "it cannot run: ExitCode1: died")


def test_a_stop_leaves_traffic_as_it_is(rest: Rest, cluster: Cluster) -> None:
    on_trial(cluster)
    stop = threading.Event()
    stop.set()
    outcome = watch(rest, "default", "hello", limits=LIMITS, read=reader(0), stop=stop)
    assert outcome.verdict == "wait"
    assert cluster.describe("hello").traffic[1] == Share(CANDIDATE, 10, "candidate")


def test_a_reading_that_fails_for_a_moment_is_passed_over(rest: Rest, cluster: Cluster) -> None:
    on_trial(cluster)
    good, num_reads = reader(0), [0]

    def read(revision: str) -> Reading:
        num_reads[0] += 1
        if num_reads[0] == 3:
            raise Unreachable("for a moment")
        return good(revision)

    outcome = watch(rest, "default", "hello", limits=LIMITS, read=read, clock=Clock(), every_s=0)
    assert outcome.verdict == "promote"


def metrics(ok: int, error: int) -> str:
    lines = [
        "# TYPE faas_requests_total counter",
        f'faas_requests_total{{function="hello",outcome="ok"}} {ok}',
        'faas_requests_total{function="hello",outcome="refused"} 5',
        f'faas_requests_total{{function="hello",outcome="error"}} {error}',
        'faas_requests_total{function="hello",outcome="deadline"} 1',
        "# TYPE faas_request_seconds histogram",
        'faas_request_seconds_bucket{le="0.1"} 3',
        f'faas_request_seconds_bucket{{le="+Inf"}} {ok}',
        f"faas_request_seconds_count {ok}",
        "faas_request_seconds_sum 1",
    ]
    return "\n".join(lines) + "\n"


def count(api: ApiServer, revision: str, text: str) -> None:
    api.do(lambda state: state.metrics.update({f"{revision}-deployment-x1": text}))


def test_metrics_of_instances_come_through_the_api_servers_proxy(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    on_trial(cluster)
    for revision in (STABLE, CANDIDATE):
        count(api, revision, metrics(100, 0))

    def worse(decision: Decision) -> None:
        num = 100 + 40 * (decision.num_breaches + 1)
        count(api, CANDIDATE, metrics(num, num - 100))

    limits = Limits(min_requests=1, num_breaches=2, trial_s=600)
    outcome = watch(rest, "default", "hello", limits=limits, on_decision=worse, clock=Clock(), every_s=0)
    assert outcome.verdict == "roll back"
    assert {call.name for call in api.called("get", "pods/proxy")} == {
        f"{STABLE}-deployment-x1:8000",
        f"{CANDIDATE}-deployment-x1:8000",
    }


def test_without_the_right_to_reach_pods_it_is_said(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    on_trial(cluster)
    api.do(lambda state: state.forbidden.add(("get", "pods/proxy")))
    with pytest.raises(NotAllowed, match="pods/proxy"):
        watch(rest, "default", "hello", limits=LIMITS, every_s=0)


def test_counts_are_requests_failures_and_latencies() -> None:
    found = counts(metrics(100, 7))
    assert (found.num_requests, found.num_errors) == (113, 8)
    assert found.buckets == ((0.1, 3), (float("inf"), 100))


def test_rollback_during_a_trial_and_after_it(cluster: Cluster) -> None:
    on_trial(cluster)
    assert cluster.rollback("hello") == (STABLE, (Share(STABLE, 100),))
    cluster.promote("hello")
    assert cluster.rollback("hello")[0] == STABLE
    assert cluster.rollback("hello", to=CANDIDATE)[1] == (Share(CANDIDATE, 100),)


def test_nothing_on_trial_nothing_before_nothing_at_all(cluster: Cluster) -> None:
    assert cluster.pin("hello") is None
    deployed(cluster, "1")
    with pytest.raises(InvalidSpec, match="has no revision on trial"):
        cluster.watch_canary("hello", limits=LIMITS)
    with pytest.raises(InvalidSpec, match="has no ready revision before it"):
        cluster.rollback("hello")
    with pytest.raises(InvalidSpec, match="has all the traffic already"):
        cluster.start_canary("hello", percent=10)
