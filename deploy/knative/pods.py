"""What a pod is doing, in one word and one sentence. Pure: from the pod's own status, as the API server has it."""

import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from deploy.knative.log_text import last_words
from deploy.knative.resources import USER_CONTAINER, Document, condition

PodStage = Literal["scheduling", "creating", "starting", "ready", "stopping", "failed"]

_RESTARTS_OF_A_LOOP = 3
_BAD_WAITS = {
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "ImageInspectError",
    "InvalidImageName",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
}


@dataclass(frozen=True)
class PodState:
    """`reason` is Kubernetes' word where it has one (`Unschedulable`, `OOMKilled`), `failing` that waiting won't help.

    `container` is the one that `reason` is about. A pod that `is_over` is never started again: it was evicted, or its
    node has gone, and another takes its place.
    """

    name: str
    stage: PodStage
    reason: str = ""
    message: str = ""
    container: str = USER_CONTAINER
    num_restarts: int = 0
    failing: bool = False
    is_over: bool = False


def pod_state(pod: Document) -> PodState:
    """Read a pod. A pod that cannot be scheduled is not failing: a node for it may be on its way."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    containers = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    num_restarts = max((int(found.get("restartCount") or 0) for found in containers), default=0)
    if pod["metadata"].get("deletionTimestamp"):
        return PodState(name, "stopping", num_restarts=num_restarts)
    if status.get("phase") == "Failed":
        reason, message = status.get("reason") or "Failed", status.get("message") or "the pod has failed"
        return PodState(name, "failed", reason, message, num_restarts=num_restarts, failing=True, is_over=True)
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") != "True":
        reason, message = scheduled.get("reason") or "", scheduled.get("message") or "waiting for a node"
        return PodState(name, "scheduling", reason, message)
    for container in containers:
        if (trouble := _trouble(name, container)) is not None:
            return trouble
    if condition(pod, "Ready").get("status") == "True":
        return PodState(name, "ready", num_restarts=num_restarts)
    if any("running" not in (found.get("state") or {}) for found in status.get("containerStatuses") or [{}]):
        return PodState(name, "creating", "ContainerCreating", "pulling the image, mounting volumes")
    return PodState(name, "starting", "", "running, not ready yet", num_restarts=num_restarts)


def _trouble(pod: str, container: Document) -> PodState | None:
    """What is wrong with one container; None for one that waits, runs or has ended as it should."""
    name, num_restarts = container.get("name", USER_CONTAINER), int(container.get("restartCount") or 0)
    state, last = container.get("state") or {}, (container.get("lastState") or {}).get("terminated") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    if ended and ended.get("exitCode"):
        reason, message = _ending(ended, 0)
    elif waiting.get("reason") == "CrashLoopBackOff":
        reason, message = "CrashLoopBackOff", waiting.get("message") or ""
        if last:
            reason, message = _ending(last, num_restarts)
    elif waiting.get("reason") in _BAD_WAITS:
        reason, message = waiting["reason"], waiting.get("message") or ""
    elif num_restarts >= _RESTARTS_OF_A_LOOP and last and not container.get("ready"):
        reason, message = _ending(last, num_restarts)
    else:
        return None
    return PodState(pod, "failed", reason, message, name, num_restarts, failing=True)


def _ending(terminated: Document, num_restarts: int) -> tuple[str, str]:
    """Why a container ended: `OOMKilled`, or `CrashLoopBackOff` where the reason is only `Error`, with the exit code.

    Its message is the end of its log where it wrote none, of which the last line is told: the others are in the log.
    """
    reason, code = terminated.get("reason") or "Error", int(terminated.get("exitCode") or 0)
    restarts = f", restarts: {num_restarts}" if num_restarts else ""
    if reason == "OOMKilled":
        return reason, f"it used more memory than its limit (exit code {code}{restarts}); raise resources.memory"
    said = f": {last}" if (last := last_words(terminated.get("message") or "")) else ""
    told = "CrashLoopBackOff" if reason in ("Error", "Completed") else reason
    return told, f"it ended with exit code {code}{_killed_by(code)}{said}{restarts}"


def _killed_by(code: int) -> str:
    """The signal that an exit code stands for, such as 139 for a crash of compiled code."""
    with suppress(ValueError):
        return f" ({signal.Signals(code - 128).name})"
    return ""
