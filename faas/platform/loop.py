"""The control loop of one function: its load is measured, its number of instances decided, instances come and go.

It sleeps without a timer while the function is at zero and nobody asks for it; a held request wakes it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace

from faas.clock import Clock, monotonic
from faas.metrics import Histogram
from faas.platform.activity import ActivityState, settle
from faas.platform.breaker import Capacity, Endpoint
from faas.platform.decider import DeciderState, Inputs, ScalingSettings, decide, keep_alive
from faas.platform.instances import Instance, Launcher, State
from faas.platform.logs import LogFile
from faas.platform.windows import LoadWindows
from faas.preparation import Description, Preparation
from warmpool.policy import Backoff

REPORT_EVERY_S = 1.0
DECIDE_EVERY_S = 2.0
START_BOUNDS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
TOTAL = "total"
"""Among the phases of a start: all of it, from the order until the instance was ready."""
SOUND_AFTER_S = 1.0
"""An instance that was ready for this long, or has answered, before it ended was no failed start."""
DEAF_AFTER_S = 5.0
"""An instance answers 504 by itself when a call's time is up; one that has not done so this much later is killed."""
STARTUP_SLACK_S = 5.0
"""An instance gives itself up after its start-up time-out; one that does not within this much more is killed."""


@dataclass(frozen=True)
class ColdStart:
    """One start of an instance: when it was ready (monotonic seconds), and the seconds that its phases took."""

    instance: str
    ready_at: float
    total_s: float
    how: str
    phases: dict[str, float]


def scaling_settings(description: Description) -> ScalingSettings:
    """Return how a function scales on one box, as `deploy` would have Knative scale it: full batches are the target."""
    window_s, retention_s = keep_alive(description.scaledown_window_s)
    return ScalingSettings(
        total=float(description.target_inputs),
        utilization=1.0,
        stable_window_s=window_s,
        retention_s=retention_s,
        target_burst_capacity=-1,
        activation_scale=description.activation_scale,
        initial_scale=0,
        min_scale=description.min_instances,
        max_scale=description.max_instances,
        progress_deadline_s=description.startup_timeout_s + 60,
    )


class ScalingLoop:
    """Keeps one function at the number of instances that its load asks for. `run` it on the platform's event loop."""

    def __init__(
        self,
        preparation: Preparation,
        launcher: Launcher,
        log: LogFile,
        *,
        on_imported: Callable[[list[str]], None],
        clock: Clock = monotonic,
    ) -> None:
        description = preparation.description
        self.preparation = preparation
        self.capacity = Capacity(
            limit=description.max_inputs,
            hold_s=description.timeout_s + description.startup_timeout_s,
            call_s=description.timeout_s + DEAF_AFTER_S,
            on_demand=self.wake,
            on_unreachable=self._unreachable,
            clock=clock,
        )
        self.instances: list[Instance] = []
        self.last_start: ColdStart | None = None
        self.start_seconds: dict[str, Histogram] = {}
        self.num_starts = 0
        self.failure: str | None = None
        self._launcher = launcher
        self.log = log
        self._on_imported = on_imported
        self._clock = clock
        self._settings = scaling_settings(description)
        self._endpoints: dict[Instance, Endpoint] = {}
        self._drains: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._is_quiet = asyncio.Event()
        self._proof: asyncio.Future[str | None] | None = None
        self._backoff = Backoff()
        self._floor = 0
        self._floor_until = -math.inf
        self._forget()

    def wake(self) -> None:
        """Look at the function again, now."""
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._changed.clear()
            wait_s = self.step(self._clock())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    async def scale(self, num_instances: int) -> None:
        """Have this many instances now: 0 drains all at once, more are kept for at least a scale-down window.

        Returns when those that had to go are gone.
        """
        self._forget()
        self._floor = min(num_instances, self.preparation.description.max_instances)
        self._floor_until = self._clock() + self.preparation.description.scaledown_window_s
        self._converge(self._floor)
        self.wake()
        if self._drains:
            await asyncio.wait(self._drains)

    async def prove(self, num_instances: int) -> str | None:
        """Have this many instances now, and wait for the first that is ready.

        Returns why there is none where one ended without ever having been ready. It is ended by cancelling it.
        """
        if self.num_ready:
            return None
        self._proof = asyncio.get_running_loop().create_future()
        await self.scale(num_instances)
        return await self._proof

    async def quiet(self) -> None:
        """Wait until no request is held or in flight; it is looked at with each step."""
        while self.capacity.concurrency.current:
            self._is_quiet.clear()
            await self._is_quiet.wait()

    def adopt(self, preparation: Preparation) -> None:
        """Start instances from this preparation from now on; those that run stay."""
        self.preparation = preparation

    async def stop(self, grace_s: float) -> None:
        """Drain every instance, each for at most `grace_s`, and wait for their ends."""
        for made in list(self.instances):
            self._drain(made, grace_s)
        if self._drains:
            await asyncio.wait(self._drains)

    @property
    def num_ready(self) -> int:
        """Instances that take calls."""
        return sum(made.state is State.READY for made in self.instances)

    def _forget(self) -> None:
        """Begin without a past: no load, no panic, nothing on the way to zero."""
        self._windows = LoadWindows(self._settings.stable_window_s, self._settings.panic_window_s)
        self._decider = DeciderState(initial_reached=True)
        self._activity = ActivityState()
        self._report_at = self._decide_at = math.inf
        self._awake = False

    def step(self, now: float) -> float | None:
        """Measure, decide and act. Returns the seconds until the next step, None where only a wake-up brings it."""
        held = self.capacity.num_held
        if not self.capacity.concurrency.current:
            self._is_quiet.set()
        if not self._awake:
            if not held and not self.instances and self._least == 0:
                return None
            self._awake = True
            self.capacity.concurrency.report()  # what came before it was looked at is no load
            self._report_at, self._decide_at = now + REPORT_EVERY_S, now
        if now >= self._report_at:
            self._windows.record(int(now), self.capacity.concurrency.report())
            self._report_at = now + REPORT_EVERY_S
        poked = held > 0 and not any(made.serves for made in self.instances)
        if poked and self._activity.scale == 0:
            self._windows.record(int(now), self.capacity.concurrency.announce())
        if poked or now >= self._decide_at:
            self._decide_at = now + DECIDE_EVERY_S
            again_at = self._decide(now)
            if again_at is not None:
                self._decide_at = min(self._decide_at, again_at)
        self._converge(max(self._activity.scale, self._floor_now(now)))
        self._kill_stuck(now)
        at_rest = self._activity.scale == 0 or self._backoff.wait_s(now) > 0  # nobody is there to be disappointed
        if not self.instances and not self.capacity.num_held and at_rest and self._least == 0:
            self._forget()
            return None
        return max(0.0, min(self._report_at, self._decide_at) - now)

    def _decide(self, now: float) -> float | None:
        inputs = Inputs(self._settings, self.num_ready, self._windows.averages(int(now)))
        decision, self._decider = decide(inputs, self._decider, now)
        settlement, self._activity = settle(inputs, decision, self._activity, now)
        self._activity = replace(self._activity, scale=settlement.scale)
        return settlement.again_at_s

    @property
    def _least(self) -> int:
        """Instances to have whatever the load."""
        return max(self._settings.min_scale, self._floor)

    def _floor_now(self, now: float) -> int:
        is_proving = self._proof is not None and not self._proof.done()
        if now >= self._floor_until and not is_proving:
            self._floor = 0
        return self._floor

    def _converge(self, wanted: int) -> None:
        living = [made for made in self.instances if made.serves]
        for _ in range(wanted - len(living)):
            if not self._start():
                break
        if len(living) > wanted:
            spare = sorted(living, key=self._busyness)[: len(living) - wanted]
            for made in spare:
                self._drain(made, self.preparation.description.grace_period_s)

    def _busyness(self, made: Instance) -> tuple[bool, int, float]:
        """Those that are not ready go first, then the least busy, of equals the youngest."""
        endpoint = self._endpoints.get(made)
        return made.state is State.READY, endpoint.in_flight if endpoint is not None else 0, -made.ordered_at

    def _start(self) -> bool:
        """Launch an instance, unless starts have failed lately: then who waits is told so."""
        wait_s = self._backoff.wait_s(self._clock())
        if wait_s > 0:
            if not any(made.serves for made in self.instances):
                self.capacity.give_up(f"instances fail to start: {self.failure}", max(1, math.ceil(wait_s)))
            return False
        self.num_starts += 1
        self.instances.append(self._launcher.launch(self.preparation, self.log, self._on_change))
        return True

    def _on_change(self, made: Instance) -> None:
        endpoint = self._endpoints.get(made)
        if made.state is State.READY and endpoint is None:
            self._ready(made)
        elif made.state is State.DRAINING:
            self._drain(made, self.preparation.description.grace_period_s)
        elif made.state is State.STOPPED:
            self._ended(made)
        if made.imported:
            self._on_imported(made.imported)
            made.imported = []
        self.wake()

    def _ready(self, made: Instance) -> None:
        assert made.ready_at is not None
        start = ColdStart(made.id, made.ready_at, made.ready_at - made.ordered_at, made.how, made.phases)
        self.last_start = start
        for phase, duration_s in ({TOTAL: start.total_s} | made.phases).items():
            self.start_seconds.setdefault(phase, Histogram(START_BOUNDS_S)).observe(duration_s)
        self.failure = None
        self._prove(None)
        endpoint = self._endpoints[made] = Endpoint(made.address)
        self.capacity.add(endpoint)

    def _ended(self, made: Instance) -> None:
        self.instances.remove(made)
        endpoint = self._endpoints.pop(made, None)
        now = self._clock()
        if endpoint is not None:
            self.capacity.fail(endpoint)
        if made.was_stopped:
            if made.ready_at is None:
                self._prove("it was stopped before it was ready")
            return
        lived_s = now - made.ready_at if made.ready_at is not None else 0.0
        served = lived_s >= SOUND_AFTER_S or (endpoint is not None and endpoint.num_answered > 0)
        why = made.failure or f"{made.id} ended with status {made.status}"
        self.log.write(made.id, *f"faas: {why}".splitlines())
        self.failure = why.splitlines()[-1]  # the rest of it, of the user's own files, is for the log alone
        self._backoff = self._backoff.after(served=served, now=now)
        if made.ready_at is None:
            self._prove(self.failure)

    def _prove(self, failure: str | None) -> None:
        if self._proof is not None and not self._proof.done():
            self._proof.set_result(failure)

    def _drain(self, made: Instance, grace_s: float) -> None:
        """Send no more calls, let those in flight end, then end the process."""
        if made.was_stopped or made.state is State.STOPPED:
            return
        made.was_stopped = True
        made.state = State.DRAINING
        idle = asyncio.Event()
        endpoint = self._endpoints.get(made)
        if endpoint is not None:
            self.capacity.remove(endpoint, idle.set)
        else:
            idle.set()
        task = asyncio.ensure_future(self._stop_when(idle, made, grace_s))
        self._drains.add(task)
        task.add_done_callback(self._drains.discard)

    async def _stop_when(self, idle: asyncio.Event, made: Instance, grace_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await idle.wait()
        await self._launcher.stop(made, grace_s)

    def _unreachable(self, endpoint: Endpoint) -> None:
        made = next((m for m, e in self._endpoints.items() if e is endpoint), None)
        if made is not None and made.worker is not None:
            made.worker.kill(signal.SIGKILL)
        self.wake()

    def _kill_stuck(self, now: float) -> None:
        limit_s = self.preparation.description.startup_timeout_s + STARTUP_SLACK_S
        for made in self.instances:
            if made.state is State.STARTING and now - made.ordered_at > limit_s and made.worker is not None:
                made.failure = f"it was not ready within {limit_s:g} s"
                made.worker.kill(signal.SIGKILL)
