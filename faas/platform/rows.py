"""What a platform tells of its functions, revisions and instances, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faas.clock import monotonic
from faas.description import Description
from faas.platform.demand import Counts
from faas.platform.hosted import Hosted
from faas.platform.instances import Instance
from faas.platform.revisions import Deployment


def function_row(hosted: Hosted, base_url: str) -> dict[str, Any]:
    """Return what is known of a function as a whole: its sums, and the facts of the revision that stands for it."""
    main, loops = hosted.main, hosted.loops
    preparation = main.preparation if main is not None else None
    loop = hosted.loop_of(main.id) if main is not None else None
    start = loop.starts.last if loop is not None else None
    counts = [hosted.past, *(one.capacity.counts for one in loops)]
    return {
        "name": hosted.name,
        "url": f"{base_url}/f/{hosted.name}/",
        "target": preparation.description.target if preparation is not None else None,
        "revision": main.id if main is not None else None,
        "revisions": len(hosted.revisions.deployments),
        "traffic": {share.revision: share.percent for share in hosted.revisions.traffic},
        "tags": dict(hosted.revisions.tags),
        "ready": hosted.num_ready,
        "instances": sum(len(one.instances) for one in loops),
        "held": sum(one.capacity.num_held for one in loops),
        "in_flight": sum(one.capacity.concurrency.current for one in loops),
        "requests": _sum(counts, "requests"),
        "failed": _sum(counts, "failed") + _sum(counts, "errors"),
        "starts": hosted.num_past_starts + sum(one.starts.num_ordered for one in loops),
        "failure": hosted.failure or next((one.starts.failure for one in loops if one.starts.failure), None),
        "snapshot": preparation.snapshot if preparation is not None else None,
        "reason": preparation.reason if preparation is not None else None,
        "last_start_ms": _milliseconds({"total": start.total_s, **start.phases}) if start is not None else None,
    }


def revision_row(hosted: Hosted, deployment: Deployment) -> dict[str, Any]:
    """Return what is known of one revision of a function. `state` is serving, tagged, draining or kept."""
    revision, preparation = deployment.id, deployment.preparation
    percent, tags = hosted.revisions.percent(revision), hosted.revisions.tags_of(revision)
    loop = hosted.loop_of(revision)
    kept = "draining" if hosted.drains(revision) else "kept"
    return {
        "revision": revision,
        "number": deployment.number,
        "deployed_at": deployment.deployed_at,
        "state": "serving" if percent else "tagged" if tags else kept,
        "percent": percent,
        "tags": tags,
        "target": preparation.description.target,
        "snapshot": preparation.snapshot,
        "reason": preparation.reason,
        "ready": loop.num_ready if loop is not None else 0,
        "instances": len(loop.instances) if loop is not None else 0,
        "requests": loop.capacity.counts.requests if loop is not None else 0,
        "failure": loop.starts.failure if loop is not None else None,
    }


def instance_row(made: Instance, now: float) -> dict[str, Any]:
    """Return what is known of an instance; `now` is on the monotonic clock."""
    return {
        "id": made.id,
        "function": made.function,
        "revision": made.revision,
        "state": made.state.value,
        "pid": made.pid,
        "how": made.how,
        "age_s": round(now - made.ordered_at, 3),
        "start_ms": _milliseconds(made.phases),
    }


def description(hosted: Hosted, base_url: str) -> dict[str, Any]:
    """Return all that is known of a function: the row of its listing, its limits, its revisions, its instances."""
    main, now = hosted.main, monotonic()
    return function_row(hosted, base_url) | {
        "limits": _limits(main.preparation.description) if main is not None else None,
        "all_revisions": [revision_row(hosted, one) for one in reversed(hosted.revisions.deployments)],
        "all_instances": [instance_row(made, now) for loop in hosted.loops for made in loop.instances],
    }


def _limits(description: Description) -> dict[str, Any]:
    """Return the numbers that a function runs under."""
    names = ("min_instances", "max_instances", "buffer_instances", "target_inputs", "target_rps")
    bounds = ("max_inputs", "max_queue", "cpu", "memory_bytes")
    durations = ("scaledown_window_s", "timeout_s", "startup_timeout_s", "grace_period_s")
    return {name: getattr(description, name) for name in (*names, *bounds, *durations, "keep_alive")}


def _sum(counts: list[Counts], name: str) -> int:
    return sum(getattr(one, name) for one in counts)


def _milliseconds(durations_s: Mapping[str, float]) -> dict[str, float]:
    return {name: round(duration_s * 1e3, 3) for name, duration_s in durations_s.items()}
