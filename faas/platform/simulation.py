"""What a function's settings would have cost on a trace: its calls are replayed against its own control loop.

The control loop, the autoscaler and the queue are the platform's own, on an event loop whose time does not pass but
jumps to whatever comes next. What is made up are instances, which are ready after a given time and answer each call
after the time that the trace says, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import selectors
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from faas.description import Description
from faas.platform.breaker import Capacity
from faas.platform.endpoint import Endpoint
from faas.platform.habits import Habit
from faas.platform.instances import Instance, State
from faas.platform.keepalive import IdleTimes
from faas.platform.logs import LogFile
from faas.platform.loop import ScalingLoop
from faas.preparation import Origin, Preparation


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a trace: when it comes, seconds from the trace's beginning, and how long it is computed, seconds."""

    at_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trace. `num_cold` calls found no instance that was ready; waits and instances are in seconds."""

    num_calls: int = 0
    num_cold: int = 0
    num_refused: int = 0
    num_starts: int = 0
    waited_s: float = 0.0
    instance_s: float = 0.0

    @property
    def cold_share(self) -> float:
        """The share of calls that found no instance; 0 of none."""
        return self.num_cold / max(1, self.num_calls)

    def __add__(self, other: Outcome) -> Outcome:
        fields = self.__slots__
        return Outcome(*(getattr(self, name) + getattr(other, name) for name in fields))


def simulate(
    description: Description,
    calls: Iterable[Call],
    *,
    start_s: float,
    until_s: float,
    unseen: IdleTimes | None = None,
) -> Outcome:
    """Replay `calls`, in the order of their times, up to `until_s`; each instance is ready after `start_s`.

    `unseen` is what a histogram of idle times begins with, where it is not to have the usual bins.
    """
    clock = _JumpingClock()
    habit = Habit(unseen) if description.keep_alive == "histogram" else None
    with asyncio.Runner(loop_factory=lambda: _JumpingLoop(clock)) as runner:
        return runner.run(_replay(description, calls, habit, start_s=start_s, until_s=until_s))


async def _replay(
    description: Description, calls: Iterable[Call], habit: Habit | None, *, start_s: float, until_s: float
) -> Outcome:
    time = asyncio.get_running_loop().time
    launcher = _Launcher(start_s, time)
    origin = Origin(python="", sources={}, distributions={})
    preparation = Preparation(description=description, origin=origin, siblings=(description.name,), imports=())
    log = LogFile(Path(os.devnull), description.name)  # what never fails writes none
    loop = ScalingLoop(preparation, launcher, log, on_imported=lambda _: None, habit=habit, clock=time)
    running = asyncio.ensure_future(loop.run())
    callers = []
    for call in calls:
        if call.at_s >= until_s:
            break
        await asyncio.sleep(call.at_s - time())
        callers.append(_Caller(loop.capacity, call.duration_s))
    await asyncio.sleep(until_s - time())
    running.cancel()
    launcher.end_all()
    return Outcome(
        num_calls=len(callers),
        num_cold=sum(caller.is_cold for caller in callers),
        num_refused=sum(caller.is_refused for caller in callers),
        num_starts=loop.starts.num_ordered,
        waited_s=sum(caller.waited_s for caller in callers),
        instance_s=launcher.instance_s,
    )


class _Caller:
    """A call: enters at once, holds its instance for as long as it is computed, and leaves."""

    __slots__ = ("_capacity", "_duration_s", "_entered_s", "_loop", "is_cold", "is_refused", "waited_s")

    def __init__(self, capacity: Capacity, duration_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._capacity = capacity
        self._duration_s = duration_s
        self._entered_s = self._loop.time()
        self.waited_s = 0.0
        self.is_cold = capacity.is_at_zero
        self.is_refused = False
        endpoint = capacity.enter()
        if endpoint is not None:
            self.granted(endpoint)
        elif not capacity.hold(self):
            self.refused("", 0)

    def granted(self, endpoint: Endpoint) -> None:
        """Hold the instance for as long as the call is computed."""
        self.waited_s = self._loop.time() - self._entered_s
        self._loop.call_later(self._duration_s, self._capacity.leave, endpoint)

    def refused(self, reason: str, retry_after_s: int) -> None:
        """Count as refused."""
        self.is_refused = True
        self._capacity.leave(None)


class _Launcher:
    """Makes instances that are ready after a while, and counts the seconds that they live."""

    def __init__(self, start_s: float, time: Callable[[], float]) -> None:
        self._start_s = start_s
        self._time = time
        self._living: dict[Instance, Callable[[Instance], None]] = {}
        self._num = 0
        self.instance_s = 0.0

    def launch(
        self,
        preparation: Preparation,
        log: LogFile,
        changed: Callable[[Instance], None],
        *,
        num_spared: int = 0,
    ) -> Instance:
        """Make an instance."""
        self._num += 1
        made = Instance(
            f"{self._num}", preparation.name, "", f"{self._num}", ordered_at=self._time(), num_spared=num_spared
        )
        self._living[made] = changed
        asyncio.get_running_loop().call_later(self._start_s, self._ready, made)
        return made

    async def stop(self, made: Instance, grace_s: float) -> None:
        """End an instance, which has nothing to do."""
        changed = self._living.get(made)
        if changed is not None:
            self._end(made)
            changed(made)

    def end_all(self) -> None:
        """Count what still lives."""
        for made in list(self._living):
            self._end(made)

    def _ready(self, made: Instance) -> None:
        if made in self._living and made.state is State.STARTING:
            made.state, made.ready_at = State.READY, self._time()
            self._living[made](made)

    def _end(self, made: Instance) -> None:
        del self._living[made]
        made.state = State.STOPPED
        made.ended.set()
        self.instance_s += self._time() - made.ordered_at


class _JumpingClock(selectors.SelectSelector):
    """The part of an event loop that waits, without waiting: its time jumps to the end of every wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let `timeout` pass at once, unless there is something to be read."""
        found = super().select(0)
        if not found:
            assert timeout is not None, "nothing is to come, and somebody waits for it"
            self.now_s += max(0.0, timeout)
        return found


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: _JumpingClock) -> None:
        self._jumping = clock
        super().__init__(clock)

    def time(self) -> float:
        """Return how far it has jumped, in seconds."""
        return self._jumping.now_s
