"""What a pod is doing, read from its status."""

from typing import Any

import pytest

from deploy.knative.pods import pod_state

SCHEDULED = {"type": "PodScheduled", "status": "True"}
READY = {"type": "Ready", "status": "True"}


def pod(
    *containers: dict[str, Any], conditions: Any = (SCHEDULED,), metadata: Any = None, **status: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", **(metadata or {})},
        "status": {"conditions": list(conditions), "containerStatuses": list(containers), **status},
    }


def container(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "user-container", "restartCount": 0, "state": state, **more}


LOOPING = container(
    {"running": {}}, restartCount=4, ready=False, lastState={"terminated": {"exitCode": 2, "reason": "Error"}}
)


@pytest.mark.parametrize(
    ("found", "stage", "reason", "failing"),
    [
        ({"metadata": {"name": "p"}}, "scheduling", "", False),
        (pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]), "scheduling",
         "Unschedulable", False),
        (pod(), "creating", "ContainerCreating", False),
        (pod(container({"waiting": {"reason": "PodInitializing"}})), "creating", "ContainerCreating", False),
        (pod(container({"running": {}})), "starting", "", False),
        (pod(container({"running": {}}), conditions=[SCHEDULED, READY]), "ready", "", False),
        (pod(container({"waiting": {"reason": "ErrImagePull"}})), "failed", "ErrImagePull", True),
        (pod(container({"waiting": {"reason": "CreateContainerError"}})), "failed", "CreateContainerError", True),
        (pod(container({"waiting": {"reason": "CrashLoopBackOff"}})), "failed", "CrashLoopBackOff", True),
        (pod(container({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})), "failed", "OOMKilled", True),
        (pod(container({"terminated": {"exitCode": 3, "reason": "Error"}})), "failed", "CrashLoopBackOff", True),
        (pod(container({"terminated": {"exitCode": 1, "reason": "StartError"}})), "failed", "StartError", True),
        (pod(LOOPING), "failed", "CrashLoopBackOff", True),
        (pod(phase="Failed", reason="Evicted"), "failed", "Evicted", True),
        (pod(container({"running": {}}), metadata={"deletionTimestamp": "now"}), "stopping", "", False),
    ],
)  # fmt: skip
def test_stage_and_reason(found: dict[str, Any], stage: str, reason: str, failing: bool) -> None:
    state = pod_state(found)
    assert (state.stage, state.reason, state.failing) == (stage, reason, failing)


def test_the_container_and_its_last_words_are_named() -> None:
    ended = {"exitCode": 1, "reason": "Error", "message": " no model\n"}
    waiting = container({"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=2, lastState={"terminated": ended})
    state = pod_state(pod({"name": "queue-proxy", "state": {"running": {}}}, waiting))
    assert (state.container, state.num_restarts) == ("user-container", 2)
    assert state.message == "it ended with exit code 1: no model, restarts: 2"
    long = {"exitCode": 139, "reason": "Error", "message": "loading\nerror: no model\nnext:  make one\n"}
    state = pod_state(pod(container({"terminated": long})))
    assert state.message == "it ended with exit code 139 (SIGSEGV): no model"
    ended = {"exitCode": 137, "reason": "OOMKilled", "message": "loading"}
    waiting = container({"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=2, lastState={"terminated": ended})
    told = "it used more memory than its limit (exit code 137, restarts: 2); raise resources.memory"
    assert pod_state(pod(waiting)).message == told
    done = pod_state(pod({"name": "init", "state": {"terminated": {"exitCode": 0}}}, container({"running": {}})))
    assert not done.failing
