"""What an answer says it cost: the Server-Timing header."""

from __future__ import annotations

from collections.abc import Mapping

from faas.messages import Call

PHASES = ("fork", "start", "import", "thaw", "setup", "warmup")
"""The parts of a cold start, in the order in which they come."""


def server_timing(call: Call) -> bytes:
    """Return what a call cost, in milliseconds: in the queue, being made ready in its batch, in the handler.

    What has not come yet (a stream's end) is left out.
    """
    if not call.started_at:
        return b"queue;dur=0"
    queue_ms = (call.picked_at - call.queued_at) * 1e3
    batch_ms = (call.started_at - call.picked_at) * 1e3
    if not call.ended_at:
        return b"queue;dur=%.3f, batch;dur=%.3f" % (queue_ms, batch_ms)
    exec_ms = (call.ended_at - call.started_at) * 1e3
    return b"queue;dur=%.3f, batch;dur=%.3f, exec;dur=%.3f" % (queue_ms, batch_ms, exec_ms)


def cold_start(phases_s: Mapping[str, float], activate_ms: float | None) -> bytes:
    """Return the parts of a cold start as a continuation of `server_timing`, as far as they are known."""
    parts = [b", %s;dur=%.3f" % (name.encode(), phases_s[name] * 1e3) for name in PHASES if name in phases_s]
    if activate_ms is not None:
        parts.append(b", activate;dur=%.3f" % activate_ms)
    return b"".join(parts)
