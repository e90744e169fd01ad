"""One device in simulated time: it runs one batch after another, of whatever model its rule says.

Nothing happens between two batches, so the simulation goes from one to the next; the calls that come meanwhile are
counted by bisection. What a call costs is therefore next to nothing, and a decision is what a run takes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Protocol

from benchmarks.scheduling.workloads import Model, Workload

NEVER = float("inf")


class Queue:
    """The calls of one model, in the order in which they come, which is that of their deadlines.

    It is the `number`th of its device. Those from `first` to `end` wait. `asked_at` is since when the model has had
    something to do, and `idle_since` when its last batch ended.
    """

    __slots__ = ("arrivals", "asked_at", "dues", "end", "first", "idle_since", "missed", "model", "number", "seconds")

    def __init__(self, model: Model, arrivals: list[float], number: int = 0) -> None:
        slo_s = model.slo_ms / 1000
        self.model = model
        self.number = number
        self.seconds = model.seconds
        self.arrivals = arrivals
        self.dues = [moment + slo_s for moment in arrivals]
        self.first = self.end = self.missed = 0
        self.asked_at = 0.0
        self.idle_since = -NEVER

    def __len__(self) -> int:
        return self.end - self.first

    def drop(self, num: int) -> None:
        """Refuse the first `num`."""
        self.first += num
        self.missed += num

    def drop_due_before(self, moment: float) -> None:
        """Refuse those who are due before `moment`."""
        self.drop(bisect_left(self.dues, moment, self.first, self.end) - self.first)

    def largest_in_time(self, now: float) -> int:
        """Return the largest batch of those who wait that ends in time for the first of them; 0 where none does."""
        left_s = self.dues[self.first] - now + 1e-12
        return min(len(self), bisect_right(self.seconds, left_s, 1) - 1)


class Rule(Protocol):
    """Says what runs next. `waiting` are the queues in which something waits, never none."""

    def pick(self, waiting: list[Queue], now: float) -> tuple[Queue, int] | None:
        """Return the queue whose first calls run, and how many; None where those who wait were all dropped."""
        ...

    def breaks_off(self, running: tuple[Queue, int], queues: Sequence[Queue], now: float) -> float | None:
        """Return when the batch that starts `now` is broken off, its calls waiting again; None: never."""
        ...


def run(workload: Workload, rule: Rule, arrivals: Sequence[list[float]], most_missed: float = NEVER) -> float:
    """Serve all arrivals, and return the share of them that was answered in time.

    Once more than `most_missed` of them cannot be any more, it ends; the share is then no more than an upper bound.
    """
    each = zip(workload.models, arrivals, strict=True)
    queues = [Queue(model, moments, number) for number, (model, moments) in enumerate(each)]
    total = sum(map(len, arrivals))
    now = missed = 0.0
    while missed <= most_missed:
        waiting = [queue for queue in queues if _arrived(queue, now)]
        if not waiting:
            now = min((queue.arrivals[queue.end] for queue in queues if queue.end < len(queue.arrivals)), default=NEVER)
            if now == NEVER:
                break
            continue
        picked = rule.pick(waiting, now)
        if picked is not None:
            now = _ran(picked, queues, rule, now)
        missed = sum(queue.missed for queue in queues)
    return 1.0 - sum(queue.missed for queue in queues) / total if total else 1.0


def _arrived(queue: Queue, now: float) -> int:
    """Take in who has come by now, and return how many wait."""
    end = queue.end
    if end < len(queue.arrivals) and queue.arrivals[end] <= now:
        if end == queue.first:
            queue.asked_at = max(queue.arrivals[end], queue.idle_since)
        queue.end = end = bisect_right(queue.arrivals, now, end)
    return end - queue.first


def _ran(picked: tuple[Queue, int], queues: Sequence[Queue], rule: Rule, now: float) -> float:
    """Run the batch, count who of it is late, and return when the device is free again."""
    broken_off_at = rule.breaks_off(picked, queues, now)
    if broken_off_at is not None:
        return broken_off_at
    queue, size = picked
    ends_at = now + queue.seconds[size]
    behind = queue.first + size
    # A batch that was made to end exactly with a deadline must not miss it by a rounding.
    queue.missed += bisect_left(queue.dues, ends_at - 1e-9, queue.first, behind) - queue.first
    queue.first = behind
    queue.idle_since = queue.asked_at = ends_at
    return ends_at
