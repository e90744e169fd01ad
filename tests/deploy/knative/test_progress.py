"""How far a service has come, from documents alone."""

from typing import Any

import pytest

from deploy.knative.progress import has_failed, look

READY_POD = {"type": "Ready", "status": "True"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def service(conditions: dict[str, str], *, generation: int = 2, observed: int = 2, **status: Any) -> dict[str, Any]:
    found = [{"type": kind, "status": value, "reason": f"{kind}Is{value}"} for kind, value in conditions.items()]
    return {
        "metadata": {"generation": generation},
        "status": {
            "observedGeneration": observed,
            "latestCreatedRevisionName": "a-00002",
            "latestReadyRevisionName": "a-00001",
            "conditions": found,
            "url": "http://a",
            **status,
        },
    }


def pod(revision: str, *conditions: dict[str, str], waiting: str = "") -> dict[str, Any]:
    state: dict[str, Any] = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    return {
        "metadata": {"name": f"{revision}-pod", "labels": {"serving.knative.dev/revision": revision}},
        "status": {
            "conditions": list(conditions),
            "containerStatuses": [{"name": "user-container", "restartCount": 0, "state": state}],
        },
    }


ALL_TRUE = {"Ready": "True", "ConfigurationsReady": "True", "RoutesReady": "True"}
MAKING = {"Ready": "Unknown", "ConfigurationsReady": "Unknown", "RoutesReady": "True"}


@pytest.mark.parametrize(("generation", "observed"), [(3, 2), (2, 1), (0, 1)])
def test_conditions_of_an_older_generation_say_nothing(generation: int, observed: int) -> None:
    found = look(service(ALL_TRUE, observed=observed), [], generation)
    assert (found.stage, found.is_ready) == ("configuration", False)


def test_a_later_generation_than_the_one_deployed_will_do() -> None:
    assert look(service(ALL_TRUE, generation=5, observed=5), [], 2).is_ready


def test_pods_of_the_revision_before_do_not_count() -> None:
    old = pod("a-00001", SCHEDULED, READY_POD)
    assert look(service(MAKING), [old]).stage == "revision"
    broken_before = pod("a-00001", SCHEDULED, waiting="ImagePullBackOff")
    found = look(service(MAKING), [broken_before, pod("a-00002", SCHEDULED)])
    assert (found.stage, found.trouble) == ("starting", None)
    assert [state.name for state in found.pods] == ["a-00002-pod"]


def test_until_the_new_revision_is_made_pods_of_the_one_before_say_nothing() -> None:
    """Knative takes notice of a change, and names the revision of before as the latest until there is another."""
    not_made = service(MAKING, latestCreatedRevisionName="a-00001")
    assert look(not_made, [pod("a-00001", SCHEDULED, READY_POD)]).stage == "revision"
    assert "a pod is ready" not in look(not_made, [pod("a-00001", SCHEDULED, READY_POD)]).message


def test_the_pod_that_has_come_furthest_gives_the_stage() -> None:
    pods = [pod("a-00002"), pod("a-00002", SCHEDULED, waiting="ContainerCreating"), pod("a-00002", SCHEDULED)]
    assert [look(service(MAKING), pods[:n]).stage for n in range(4)] == [
        "revision",
        "scheduling",
        "creating",
        "starting",
    ]
    assert look(service(MAKING), [*pods, pod("a-00002", SCHEDULED, READY_POD)]).message.startswith("a pod is ready")


def test_trouble_of_one_pod_is_none_while_another_is_ready() -> None:
    broken, good = pod("a-00002", SCHEDULED, waiting="CrashLoopBackOff"), pod("a-00002", SCHEDULED, READY_POD)
    found = look(service(MAKING), [broken])
    assert found.trouble is not None
    assert found.trouble.reason == "CrashLoopBackOff"
    assert found.message.startswith("CrashLoopBackOff: ")
    assert look(service(MAKING), [broken, good]).trouble is None


def test_a_pod_that_was_evicted_is_no_trouble_while_another_takes_its_place() -> None:
    evicted = pod("a-00002", SCHEDULED)
    evicted["status"] |= {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    coming = pod("a-00002", SCHEDULED, waiting="ContainerCreating")
    assert look(service(MAKING), [evicted, coming]).trouble is None
    alone = look(service(MAKING), [evicted]).trouble
    assert alone is not None
    assert alone.reason == "Evicted"
    crashing = pod("a-00002", SCHEDULED, waiting="CrashLoopBackOff")
    assert look(service(MAKING), [crashing, coming]).trouble is not None


def test_a_route_that_fails_is_told_as_such() -> None:
    failed = {"Ready": "False", "ConfigurationsReady": "True", "RoutesReady": "False"}
    found = look(service(failed), [])
    assert found.stage == "route"
    assert found.trouble is not None
    assert found.trouble.reason == "RoutesReadyIsFalse"


def test_a_pod_without_a_node_is_waited_for_though_knative_calls_it_failed() -> None:
    stuck = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
    failed = service({**MAKING, "ConfigurationsReady": "False", "Ready": "False"})
    for said in (service(MAKING), failed):
        found = look(said, [pod("a-00002", stuck)])
        assert (found.stage, found.message, found.trouble) == (
            "scheduling",
            "Unschedulable: 0/1 nodes are available",
            None,
        )


def test_that_a_pod_had_no_node_is_no_failure_once_it_has_one() -> None:
    failed = service({**MAKING, "ConfigurationsReady": "False", "Ready": "False"})
    coming = [pod("a-00002", SCHEDULED)]
    others = look(failed, coming).trouble
    assert others is not None
    assert others.reason == "ConfigurationsReadyIsFalse"
    for found in failed["status"]["conditions"]:
        found["message"] = 'Revision "a-00002" failed with message: 0/1 nodes are available: 1 Insufficient cpu.'
    assert look(failed, coming).trouble is None
    assert look(failed, [pod("a-00002", SCHEDULED, READY_POD)]).trouble is None, "Knative takes it back a little later"
    assert look(failed, []).trouble is not None


def test_before_there_is_a_revision() -> None:
    found = look(service(MAKING, latestCreatedRevisionName=None), [])
    assert (found.stage, found.message) == ("configuration", "ConfigurationsReadyIsUnknown")


def test_a_service_has_failed_once_its_latest_configuration_has() -> None:
    failed = {**MAKING, "ConfigurationsReady": "False", "Ready": "False"}
    assert has_failed(service(failed))
    assert not has_failed(service(MAKING))
    older, waiting = service(failed), service(failed)
    older["metadata"]["generation"] += 1
    assert not has_failed(older)
    for found in waiting["status"]["conditions"]:
        found["message"] = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert not has_failed(waiting)
