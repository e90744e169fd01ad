"""What starts cost: read from pods, events and metrics."""

from typing import Any

import pytest

from deploy.errors import Missing
from deploy.knative import Cluster
from deploy.knative.cold_starts import cold_start, phases, seconds

from .answers import Answer
from .api_server import ApiServer, always
from .given import deployed

POD: dict[str, Any] = {
    "metadata": {
        "name": "hello-1",
        "uid": "u1",
        "creationTimestamp": "2026-08-01T10:00:00Z",
        "labels": {"serving.knative.dev/revision": "hello-00001"},
    },
    "spec": {"nodeName": "node-1", "containers": []},
    "status": {
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-08-01T10:00:01Z"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-08-01T10:00:07Z"},
        ],
        "containerStatuses": [
            {"name": "queue-proxy", "state": {"running": {"startedAt": "2026-08-01T10:00:02Z"}}},
            {"name": "user-container", "state": {"running": {"startedAt": "2026-08-01T10:00:05Z"}}},
        ],
    },
}


def pulled(message: str, container: str = "user-container", uid: str = "u1") -> dict[str, Any]:
    about = {"uid": uid, "fieldPath": f"spec.containers{{{container}}}"}
    return {"reason": "Pulled", "involvedObject": about, "message": message}


def test_a_start_is_taken_apart() -> None:
    events = [
        pulled('Successfully pulled image "q" in 9s', "queue-proxy"),
        pulled('Successfully pulled image "x" in 8s', uid="u2"),
        pulled('Successfully pulled image "x" in 2.5s (2.5s including waiting). Image size: 1 bytes.'),
    ]
    start = cold_start(POD, events, {"thaw": 0.1})
    assert (start.pod, start.revision, start.node) == ("hello-1", "hello-00001", "node-1")
    assert (start.scheduling_s, start.container_s, start.ready_s, start.total_s) == (1, 4, 2, 7)
    assert start.image_s == 2.5
    assert start.phases_s == {"thaw": 0.1}


def test_an_image_that_is_there_costs_nothing_and_one_that_nobody_tells_of_is_unknown() -> None:
    present = [pulled('Container image "x" already present on machine')]
    assert cold_start(POD, present, {}).image_s == 0
    assert cold_start(POD, [], {}).image_s is None


def test_what_has_not_happened_yet_is_none() -> None:
    waiting = {**POD, "spec": {}, "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}
    start = cold_start(waiting, [], {})
    assert (start.node, start.scheduling_s, start.container_s, start.ready_s, start.total_s) == (None,) * 5


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pulled in 2.5s (3s including waiting)", 2.5),
        ("pulled in 812.345ms", 0.812345),
        ("pulled in 1m2.5s", 62.5),
        ("pulled in 1h0m1s", 3601),
        ("pulled in 90µs", 9e-5),
        ("pulled", None),
        ("in no time", None),
    ],
)
def test_durations_are_read_as_go_writes_them(text: str, value: float | None) -> None:
    assert seconds(text) == (None if value is None else pytest.approx(value))


def test_phases_are_read_from_metrics() -> None:
    text = 'x_total 1\nfaas_cold_start_seconds{phase="import"} 0.5\nfaas_cold_start_seconds{phase="thaw"} 0.01\n'
    assert phases(text) == {"import": 0.5, "thaw": 0.01}


def test_what_may_not_be_read_is_left_out(api: ApiServer, cluster: Cluster) -> None:
    deployed(cluster, "1")
    forbidden = Answer(403, "forbidden")
    api.do(lambda state: state.faults.append(always(forbidden, verb="list", resource="events")))
    api.do(lambda state: state.faults.append(always(forbidden, verb="get", resource="pods/proxy")))
    (start,) = cluster.cold_starts("hello")
    assert (start.pod, start.image_s, start.phases_s) == ("hello-00001-deployment-x1", None, {})
    with pytest.raises(Missing):
        cluster.cold_starts("other")
