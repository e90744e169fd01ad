"""Waiting for Ready: progress on the way, and the reason where there is no way."""

from collections.abc import Callable

import pytest

from deploy.errors import NotReady
from deploy.knative import Cluster
from deploy.knative.progress import Progress
from deploy.knative.rest import Rest
from deploy.knative.waiting import wait_ready

from .api_server import ApiServer
from .controller import Behaviour
from .given import deployed, document

IMAGE = "ghcr.io/acme/hello:1"


def failing(api: ApiServer, rest: Rest, cluster: Cluster, behaviour: Behaviour) -> NotReady:
    api.controller.behaviours[IMAGE] = behaviour
    cluster.apply(document())
    with pytest.raises(NotReady) as raised:
        wait_ready(rest, "default", "hello", timeout_s=20, settle_s=0.3)
    return raised.value


def test_progress_passes_the_stages_and_ends_ready(api: ApiServer, cluster: Cluster) -> None:
    api.controller.step_s = 0.1
    applied = cluster.apply(document())
    seen: list[Progress] = []
    ready = cluster.wait_ready("hello", timeout_s=20, generation=applied.generation, on_progress=seen.append)
    assert (ready.name, ready.revision, ready.receives_traffic) == ("hello", "hello-00001", True)
    assert ready.url == "http://hello.default.example.com"
    stages = list(dict.fromkeys(progress.stage for progress in seen))
    assert stages[-1] == "ready"
    assert {"scheduling", "creating", "starting", "route"} <= set(stages)
    assert len(seen) == len([a for a, b in zip([None, *seen], seen, strict=False) if a != b])


def test_a_change_is_awaited_and_not_the_readiness_before_it(api: ApiServer, cluster: Cluster) -> None:
    api.controller.step_s = 0.05
    assert deployed(cluster, "1", "2") == ["hello-00001", "hello-00002"]


@pytest.mark.parametrize(
    ("behaviour", "reason", "parts"),
    [
        ("crash", "CrashLoopBackOff", ("pod hello-00001-deployment-x1", "exit code 1", "restarts: 1")),
        ("out of memory", "OOMKilled", ("exit code 137", "raise resources.memory")),
        ("no image", "ImagePullBackOff", ("Back-off pulling image", IMAGE)),
        ("over quota", "FailedCreate", ("exceeded quota: team", "faas describe hello")),
    ],
)
def test_a_failure_is_told_by_its_reason(
    api: ApiServer, rest: Rest, cluster: Cluster, behaviour: Behaviour, reason: str, parts: tuple[str, ...]
) -> None:
    failed = failing(api, rest, cluster, behaviour)
    assert failed.reason == reason
    assert [part for part in parts if part not in str(failed)] == []


def test_a_crash_comes_with_its_last_lines(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    failed = failing(api, rest, cluster, "crash")
    assert failed.log[-1] == "ModuleNotFoundError: No module named 'tokenizers'"
    assert "    ModuleNotFoundError" in str(failed)
    assert failed.pod == "hello-00001-deployment-x1"


def test_where_logs_may_not_be_read_the_reason_has_to_do(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    api.do(lambda state: state.forbidden.add(("get", "pods/log")))
    failed = failing(api, rest, cluster, "crash")
    assert (failed.reason, failed.log) == ("CrashLoopBackOff", ())


def test_a_pod_without_a_node_is_awaited_to_the_deadline(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    api.controller.behaviours[IMAGE] = "unschedulable"
    cluster.apply(document())
    seen: list[Progress] = []
    with pytest.raises(NotReady, match=r"after 1 s.*Unschedulable: 0/3 nodes .* nvidia\.com/gpu"):
        wait_ready(rest, "default", "hello", timeout_s=1, settle_s=0.1, on_progress=seen.append)
    assert "Insufficient nvidia.com/gpu" in seen[-1].message


def test_a_gpu_that_the_revision_before_keeps_is_said(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    deployed(cluster, "1")
    api.controller.behaviours["ghcr.io/acme/hello:2"] = "unschedulable"
    cluster.apply(document(tag="2"))
    with pytest.raises(
        NotReady, match=r"Insufficient nvidia\.com/gpu.*; other revisions keep 1 of its instances until"
    ):
        wait_ready(rest, "default", "hello", timeout_s=1, settle_s=0.1)


def test_what_the_kubelet_warned_of_is_the_reason_where_the_pod_has_none(
    api: ApiServer, rest: Rest, cluster: Cluster
) -> None:
    api.controller.behaviours[IMAGE] = "never"
    cluster.apply(document())
    pod = "hello-00001-deployment-x1"
    for number, (kind, reason, message) in enumerate(
        (
            ("Warning", "FailedMount", "MountVolume.SetUp failed: hostPath type check failed"),
            ("Warning", "Unhealthy", "Startup probe failed: HTTP probe failed with statuscode: 503"),
            ("Normal", "Pulled", "Container image already present"),
        )
    ):
        about = {"name": pod if reason != "Pulled" else "another"}
        event = {"metadata": {"name": f"e{number}", "namespace": "default"}, "involvedObject": about, "type": kind}
        event |= {"reason": reason, "message": message, "lastTimestamp": f"2026-08-01T10:00:0{number}Z"}
        api.do(lambda state, event=event: state.store.put("events", event))
    with pytest.raises(NotReady, match=rf"after 1 s, pod {pod}: Unhealthy: Startup probe failed.*503; see more"):
        wait_ready(rest, "default", "hello", timeout_s=1)
    api.do(lambda state: state.forbidden.add(("list", "events")))
    with pytest.raises(NotReady, match=rf"after 1 s, pod {pod}: starting: running, not ready yet"):
        wait_ready(rest, "default", "hello", timeout_s=1)


def test_a_service_that_is_not_there_is_not_awaited(cluster: Cluster) -> None:
    with pytest.raises(NotReady, match="is gone") as raised:
        cluster.wait_ready("hello", timeout_s=20)
    assert raised.value.reason == "Deleted"


def test_a_failure_that_passes_is_no_failure(api: ApiServer, rest: Rest, cluster: Cluster) -> None:
    """Kubernetes tries again; what is mended before the failure has settled is ready."""
    api.controller.behaviours[IMAGE] = "never"
    cluster.apply(document())

    def mend(progress: Progress) -> None:
        if progress.trouble is not None:
            api.do(_ready_after_all)
        elif progress.stage == "starting":
            api.do(_fail_for_now)

    assert wait_ready(rest, "default", "hello", timeout_s=20, settle_s=10, on_progress=mend).url == "http://hello"


def _set(api_status: str, **fields: str) -> Callable[..., None]:
    def change(state: object) -> None:
        store = state.store  # type: ignore[attr-defined]
        found = store.get("services", "default", "hello")
        kinds = ("ConfigurationsReady", "Ready", "RoutesReady")
        found["status"]["conditions"] = [{"type": kind, "status": api_status} for kind in kinds]
        found["status"] |= {"observedGeneration": 1, **fields}
        store.put("services", found)

    return change


_fail_for_now = _set("False")
_ready_after_all = _set("True", url="http://hello")
