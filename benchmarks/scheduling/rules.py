"""The rules: ours, made of the very functions that an engine decides by, and those of others, as they are published.

None of them waits while there is something to run. A model's target is the largest batch of which two in a row keep its
promise.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from benchmarks.scheduling.device import Queue, Rule
from benchmarks.scheduling.workloads import MOST, Model, Workload
from faas.engine import edf
from faas.engine.in_time import Promise

Picked = tuple[Queue, int]


class _Rule:
    def breaks_off(self, running: Picked, queues: Sequence[Queue], now: float) -> float | None:
        return None


class _Known:
    """A latency model that knows everything."""

    is_confident = True
    largest_run = MOST

    def __init__(self, model: Model) -> None:
        self._seconds = model.seconds
        self.at_most = self._seconds.__getitem__

    def largest_within(self, seconds: float, most: int) -> int:
        return edf.largest(1, most, lambda size: self._seconds[size] <= seconds)


class DeadlineOrder(_Rule):
    """Ours: the deadline first, window drop, free growth; `faas.engine.edf`, with the limits of `in_time`."""

    def __init__(self, workload: Workload) -> None:
        promises = [Promise(model.slo_ms / 1000, MOST, _Known(model)) for model in workload.models]
        self._limits = {model: each.limits() for model, each in zip(workload.models, promises, strict=True)}

    def pick(self, waiting: list[Queue], now: float) -> Picked | None:
        best: Picked | None = None
        earliest = float("inf")
        for queue in waiting:
            batch = self._batch(queue, now)
            if batch is not None:
                turn = edf.turn(batch, queue.asked_at)
                if turn < earliest:
                    earliest, best = turn, (queue, batch.size)
        return best

    def _batch(self, queue: Queue, now: float) -> edf.Batch | None:
        limits = self._limits[queue.model]
        while queue.first < queue.end:
            spared = queue.arrivals[queue.first] >= queue.idle_since
            batch = edf.choose(edf.Head(queue.dues[queue.first], 1, spared), len(queue), limits, now)
            if batch is not None:
                return batch
            queue.drop(1)
        return None


class _Turns(_Rule):
    """Models in turns, as far as they have something to run."""

    def __init__(self, workload: Workload) -> None:
        self._last = -1

    def pick(self, waiting: list[Queue], now: float) -> Picked | None:
        for queue in sorted(waiting, key=lambda one: (one.number <= self._last, one.number)):
            size = self._batch(queue, now)
            if size:
                self._last = queue.number
                return queue, size
        return None

    def _batch(self, queue: Queue, now: float) -> int:
        """Return how many of those who wait run, after dropping whom the rule drops; 0 where nobody is left."""
        raise NotImplementedError


class Timeout0(_Turns):
    """What TensorFlow Serving and Triton do by default: all who wait, late or not, up to a largest batch."""

    def _batch(self, queue: Queue, now: float) -> int:
        return min(len(queue), queue.model.target)


class Aimd(_Turns):
    """Clipper's: a limit for each model that grows by one while a batch takes no longer than the promise, and else
    falls by a tenth. Who is late already is dropped (Crankshaw et al., NSDI 2017)."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._limits: dict[Queue, float] = {}

    def _batch(self, queue: Queue, now: float) -> int:
        queue.drop_due_before(now)
        limit = self._limits.get(queue, 1.0)
        size = min(len(queue), int(limit))
        if size and queue.seconds[size] > queue.model.slo_ms / 1000:
            self._limits[queue] = max(1.0, limit * 0.9)
        elif size == int(limit):
            self._limits[queue] = limit + 1.0
        return size


class RoundRobin(_Turns):
    """Nexus's: the window drop for batches of a model's target (Shen et al., SOSP 2019)."""

    def _batch(self, queue: Queue, now: float) -> int:
        target = queue.model.target
        while len(queue):
            size = min(target, len(queue))
            if now + queue.seconds[size] <= queue.dues[queue.first]:
                return size
            queue.drop(1)
        return 0


class LargestBatch(_Rule):
    """The largest batch of each model that is in time for its first; of these the one that has to start soonest."""

    def __init__(self, workload: Workload) -> None:
        pass

    def pick(self, waiting: list[Queue], now: float) -> Picked | None:
        best: Picked | None = None
        earliest = float("inf")
        for queue in _possible(waiting, now):
            size = self._size(queue, now)
            start_by = queue.dues[queue.first] - queue.seconds[size]
            if start_by < earliest:
                earliest, best = start_by, (queue, size)
        return best

    def _size(self, queue: Queue, now: float) -> int:
        return queue.largest_in_time(now)


class Clockwork(LargestBatch):
    """The same with batches of a few sizes, for which alone times are kept (Gujarati et al., OSDI 2020)."""

    def _size(self, queue: Queue, now: float) -> int:
        return 1 << queue.largest_in_time(now).bit_length() - 1


class Shepherd(_Rule):
    """The largest batch over all models that is in time for its first; one that is three times as large as the one that
    runs breaks that off, whose calls wait again (Zhang et al., NSDI 2023)."""

    _FACTOR = 3

    def __init__(self, workload: Workload) -> None:
        pass

    def pick(self, waiting: list[Queue], now: float) -> Picked | None:
        waiting = _possible(waiting, now)
        if not waiting:
            return None
        sizes = [queue.largest_in_time(now) for queue in waiting]
        size = max(sizes)
        return waiting[sizes.index(size)], size

    def breaks_off(self, running: Picked, queues: Sequence[Queue], now: float) -> float | None:
        held, size = running
        wanted = self._FACTOR * size
        ends_at = now + held.seconds[size]
        moments = [self._outgrown(queue, size if queue is held else 0, wanted, (now, ends_at)) for queue in queues]
        return min((moment for moment in moments if moment is not None), default=None)

    @staticmethod
    def _outgrown(queue: Queue, num_running: int, wanted: int, span: tuple[float, float]) -> float | None:
        """Return when, within the span, a batch of `wanted` calls of the queue could be started in time."""
        now, ends_at = span
        begin, known = queue.first + num_running, bisect_right(queue.arrivals, now)
        for last in range(max(begin + wanted - 1, known), bisect_left(queue.arrivals, ends_at)):
            moment = queue.arrivals[last]
            first = bisect_left(queue.dues, moment + queue.seconds[1], begin)
            if last + 1 - first >= wanted and moment + queue.seconds[wanted] <= queue.dues[first]:
                return moment
        return None


def _possible(waiting: list[Queue], now: float) -> list[Queue]:
    """Drop those who are late even if they run alone, and return the queues that still have some."""
    for queue in waiting:
        queue.drop_due_before(now + queue.seconds[1] - 1e-12)
    return [queue for queue in waiting if len(queue)]


RULES: dict[str, Callable[[Workload], Rule]] = {
    "AIMD": Aimd,
    "timeout 0": Timeout0,
    "Clockwork": Clockwork,
    "round robin": RoundRobin,
    "Shepherd": Shepherd,
    "largest batch": LargestBatch,
    "ours": DeadlineOrder,
}
