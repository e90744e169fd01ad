"""What a platform remembers of its functions' last minutes: one sample a second at most, and the last starts.

A function that does nothing costs nothing: samples come from the steps of its control loops, which then make none. A
sample holds until the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from faas.clock import Clock, monotonic
from faas.platform.demand import Counts
from faas.platform.instances import State
from faas.platform.loop import ScalingLoop

NUM_SAMPLES = 600
NUM_STARTS = 20
NUM_FUNCTIONS = 1000
"""Those that have done nothing for longest are forgotten beyond it."""
_ROW = struct.Struct("<8I")


class Sample(NamedTuple):
    """A function at one time: instances by state, requests that wait and all that are there, and counts so far.

    `at_s` is in whole seconds on the monotonic clock.
    """

    at_s: int
    starting: int
    ready: int
    draining: int
    waiting: int
    current: int
    requests: int
    failed: int


class Start(NamedTuple):
    """One start of an instance; `ready_at` on the monotonic clock, the phases' and the whole duration in seconds."""

    instance: str
    revision: str
    how: str
    ready_at: float
    total_s: float
    phases_s: dict[str, float]


class Series:
    """The last `NUM_SAMPLES` samples of one function, packed: 32 bytes each."""

    def __init__(self) -> None:
        self._rows = bytearray()
        self._next = 0
        self._last: Sample | None = None

    def note(self, sample: Sample) -> bool:
        """Take a sample, in place of the last where that is of the same second. Returns whether it says anything new.

        Times do not go back.
        """
        last = self._last
        if last is not None and last[1:] == sample[1:]:
            return False
        if last is not None and last.at_s == sample.at_s:
            self._next = (self._next - 1) % NUM_SAMPLES
        at = self._next * _ROW.size
        self._rows[at : at + _ROW.size] = _ROW.pack(*sample)
        self._next = (self._next + 1) % NUM_SAMPLES
        self._last = sample
        return True

    def since(self, at_s: int) -> list[Sample]:
        """Return the samples from `at_s` on, the oldest first, after the one that held then."""
        middle = self._next * _ROW.size
        ordered = (self._rows[middle:], self._rows[:middle])
        samples = [Sample(*row) for part in ordered for row in _ROW.iter_unpack(part)]
        first = next((i for i, sample in enumerate(samples) if sample.at_s >= at_s), len(samples))
        return samples[max(0, first - 1) :]


class _Past:
    def __init__(self) -> None:
        self.series = Series()
        self.starts: deque[Start] = deque(maxlen=NUM_STARTS)
        self.last_ready_at = 0.0


class History:
    """Remembers every function of a platform by name, and tells those who watch that something has changed."""

    def __init__(self, clock: Clock = monotonic) -> None:
        self.clock = clock
        self._pasts: OrderedDict[str, _Past] = OrderedDict()
        self._watchers: set[asyncio.Event] = set()

    def observe(self, name: str, loops: Iterable[ScalingLoop], past: Counts) -> None:
        """Look at a function: at all control loops that it has now; `past` counts for those that it had."""
        known = self._pasts.get(name)
        if known is None:
            known = self._pasts[name] = _Past()
            if len(self._pasts) > NUM_FUNCTIONS:
                self._pasts.popitem(last=False)
        self._pasts.move_to_end(name)
        loops = list(loops)
        is_new = known.series.note(_sample(int(self.clock()), loops, past))
        if _note_starts(known, loops) or is_new:
            self.tell()

    def samples(self, name: str, since_s: int) -> list[Sample]:
        """Return a function's samples from `since_s` on, and the one that held then."""
        known = self._pasts.get(name)
        return known.series.since(since_s) if known is not None else []

    def starts(self, name: str) -> list[Start]:
        """Return a function's last starts, the latest first."""
        known = self._pasts.get(name)
        return list(reversed(known.starts)) if known is not None else []

    @contextlib.contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """Have an event that is set whenever something has changed; who watches clears it."""
        event = asyncio.Event()
        self._watchers.add(event)
        try:
            yield event
        finally:
            self._watchers.discard(event)

    @property
    def num_watchers(self) -> int:
        """How many look on."""
        return len(self._watchers)

    def tell(self) -> None:
        """Say that something has changed."""
        for event in self._watchers:
            event.set()


def _sample(at_s: int, loops: list[ScalingLoop], past: Counts) -> Sample:
    states = [made.state for loop in loops for made in loop.instances]
    capacities = [loop.capacity for loop in loops]
    return Sample(
        at_s,
        states.count(State.STARTING),
        states.count(State.READY),
        states.count(State.DRAINING),
        sum(capacity.num_held for capacity in capacities),
        sum(capacity.concurrency.current for capacity in capacities),
        past.requests + sum(capacity.counts.requests for capacity in capacities),
        past.failed + past.errors + sum(capacity.counts.failed + capacity.counts.errors for capacity in capacities),
    )


def _note_starts(known: _Past, loops: list[ScalingLoop]) -> bool:
    """Remember the instances that have become ready since the last look. Returns whether there are any."""
    fresh = [
        (made.ready_at, made)
        for loop in loops
        for made in loop.instances
        if made.ready_at is not None and made.ready_at > known.last_ready_at
    ]
    for ready_at, made in sorted(fresh, key=lambda pair: pair[0]):
        total_s = ready_at - made.ordered_at
        known.starts.append(Start(made.id, made.revision, made.how, ready_at, total_s, made.phases))
        known.last_ready_at = ready_at
    return bool(fresh)
