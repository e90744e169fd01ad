"""The errors with which an engine ends a call that it does not answer."""

from __future__ import annotations

import math

from faas.errors import DeadlineExceeded, DeadlineUnmeetable, FaasError, QueueFull, Unavailable, named
from faas.messages import Call


def stopping() -> Unavailable:
    """Return what a call gets that comes while the engine drains."""
    return Unavailable("the instance is stopping and takes no new calls; try again, another one will answer")


def stopped() -> Unavailable:
    """Return what a call gets that was still in hand when the engine ended."""
    return Unavailable("the instance stopped before this call was answered; try again")


def queue_full(num_queued: int, clears_in_s: float) -> QueueFull:
    """Return what a call gets for which there is no room; what waits will have been answered in `clears_in_s`."""
    text = f"{num_queued} calls wait and there is room for no more; try again later, or raise max_queue"
    return QueueFull(text, _retry_after_s(clears_in_s))


def unmeetable(takes_s: float, left_s: float, clears_in_s: float, *, own: bool) -> DeadlineUnmeetable:
    """Return what a call gets whose answer would take `takes_s` and is due in `left_s`.

    `own`: it is the time that the caller or `timeout_s` allows that is too short, and not the function's promise.
    """
    limit, remedy = _limit(own)
    text = (
        f"the answer would take about {takes_s * 1000:.3g} ms, and by {limit} it is due in {left_s * 1000:.3g} ms; "
        f"try again later, or {remedy}"
    )
    return DeadlineUnmeetable(text, _retry_after_s(clears_in_s))


def last_moment(call: Call, now: float, left_s: float, clears_in_s: float, *, own: bool) -> DeadlineUnmeetable:
    """Return what a call gets that is due in `left_s`, when its batch would have to begin and what runs goes on.

    `own` is as `unmeetable` has it.
    """
    limit, remedy = _limit(own)
    text = (
        f"the call waited {(now - call.queued_at) * 1000:.0f} ms in the queue, and by {limit} it is due in "
        f"{left_s * 1000:.3g} ms, about what a batch takes, while another one runs; try again later, or {remedy}"
    )
    return DeadlineUnmeetable(text, _retry_after_s(clears_in_s))


def promise_missed(call: Call, now: float, clears_in_s: float) -> DeadlineUnmeetable:
    """Return what a call gets that waited longer than the promised time."""
    text = f"the call waited {(now - call.queued_at) * 1000:.0f} ms in the queue, longer than slo_ms; try again later"
    return DeadlineUnmeetable(text, _retry_after_s(clears_in_s))


def waited_too_long(call: Call, now: float, clears_in_s: float) -> DeadlineUnmeetable:
    """Return what a call gets that waited longer than the queue's policy, or its caller, allows."""
    text = f"the call waited {(now - call.queued_at) * 1000:.0f} ms in the queue, as long as it may; try again later"
    return DeadlineUnmeetable(text, _retry_after_s(clears_in_s))


def expired(call: Call, now: float, fate: str = "") -> DeadlineExceeded:
    """Return what a call gets whose deadline has passed; `fate` is what becomes of its handler where it had begun."""
    where, then = ("in the queue", "") if call.picked_at == 0.0 else ("while it was computed", fate)
    after_s = now - call.queued_at
    return DeadlineExceeded(f"the time allowed for the call passed {where}, {after_s:.3f} s after it came{then}")


def engine_failed(error: BaseException | None) -> FaasError:
    """Return what the calls in hand get after a fault of the engine's own."""
    what = "it was left without an answer" if error is None else named(error)
    return FaasError(f"the engine failed on this call ({what}); the log has the traceback")


def _limit(own: bool) -> tuple[str, str]:
    return ("the time allowed for the call", "allow more") if own else ("slo_ms", "raise slo_ms")


def _retry_after_s(seconds: float) -> float:
    return float(max(1, math.ceil(seconds)))
