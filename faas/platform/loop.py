"""The control loop of one function: its load is measured, its number of instances decided, instances come and go.

It sleeps without a timer while the function is at zero and nobody asks for it; a held request wakes it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections.abc import Callable
from typing import Protocol

from faas.clock import Clock, monotonic
from faas.platform.autoscaler import scaling_settings
from faas.platform.breaker import Capacity
from faas.platform.demand import Rate
from faas.platform.endpoint import Endpoint
from faas.platform.habits import Habit
from faas.platform.instances import Instance, OnChange, State
from faas.platform.logs import LogFile
from faas.platform.starts import Starts
from faas.platform.wanted import Wanted
from faas.preparation import Preparation
from warmpool.policy import Backoff

SOUND_AFTER_S = 1.0
"""An instance that was ready for this long, or has answered, before it ended was no failed start."""
DEAF_AFTER_S = 5.0
"""An instance answers 504 by itself when a call's time is up; one that has not done so this much later is killed."""
RETRY_AFTER_S = 5.0
"""What callers are told to wait where there was no room for an instance."""
STARTUP_SLACK_S = 5.0
"""An instance gives itself up after its start-up time-out; one that does not within this much more is killed."""


class Launcher(Protocol):
    """Starts and ends instances; see `launcher.Launcher`, which does so with processes."""

    def launch(self, preparation: Preparation, log: LogFile, changed: OnChange) -> Instance:
        """Order an instance, and tell of every change of its state."""
        ...

    async def stop(self, made: Instance, grace_s: float) -> None:
        """Drain an instance and wait for its end."""
        ...


def _admit(_: ScalingLoop) -> None:
    """Refuse no start."""


def _ignore() -> None:
    """Nobody looks on."""


class ScalingLoop:
    """Keeps one function at the number of instances that its load asks for. `run` it on the platform's event loop.

    `habit` are its idle times, where they say how long it stays warm. `admit` is asked before each start, and returns
    why there can be none, or None. `grace_s` is Knative's grace before zero.
    """

    def __init__(
        self,
        preparation: Preparation,
        launcher: Launcher,
        log: LogFile,
        *,
        on_imported: Callable[[list[str]], None],
        on_step: Callable[[], object] = _ignore,
        habit: Habit | None = None,
        admit: Callable[[ScalingLoop], str | None] = _admit,
        grace_s: float = 0.0,
        clock: Clock = monotonic,
    ) -> None:
        description = preparation.description
        self.preparation = preparation
        self.revision = preparation.revision
        self.capacity = Capacity(
            limit=description.max_inputs,
            queue_limit=(description.max_inputs + description.max_queue) * description.max_instances,
            hold_s=description.timeout_s + description.startup_timeout_s,
            call_s=description.timeout_s + DEAF_AFTER_S,
            on_demand=self.wake,
            on_unreachable=self._unreachable,
            clock=clock,
        )
        self.instances: list[Instance] = []
        self.starts = Starts()
        self.failure: str | None = None
        self._launcher = launcher
        self.log = log
        self._on_imported = on_imported
        self._on_step = on_step
        self._clock = clock
        self._admit = admit
        concurrency = self.capacity.concurrency
        rate = None if description.target_rps is None else Rate(clock, concurrency, self.capacity.counts)
        self._wanted = Wanted(scaling_settings(description, grace_s=grace_s), concurrency, habit, rate)
        self._endpoints: dict[Instance, Endpoint] = {}
        self._drains: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._is_quiet = asyncio.Event()
        self._proof: asyncio.Future[str | None] | None = None
        self._backoff = Backoff()
        self._is_refused = False
        concurrency.on_return = self._returned

    def wake(self) -> None:
        """Look at the function again, now."""
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._changed.clear()
            wait_s = self.step(self._clock())
            self._on_step()
            timer = None if wait_s is None else asyncio.get_running_loop().call_later(wait_s, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    async def scale(self, num_instances: int) -> None:
        """Have this many instances now: 0 drains all at once, more are kept for at least a scale-down window.

        Returns when those that had to go are gone.
        """
        description = self.preparation.description
        wanted = min(num_instances, description.max_instances)
        self._wanted.by_hand(wanted, self._clock() + description.scaledown_window_s)
        self._converge(wanted)
        self._forget()
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
        self._wanted.remember()
        for made in list(self.instances):
            self._drain(made, grace_s)
        if self._drains:
            await asyncio.wait(self._drains)

    @property
    def num_ready(self) -> int:
        """Instances that take calls."""
        return sum(made.state is State.READY for made in self.instances)

    @property
    def idle(self) -> list[Instance]:
        """Instances that are ready, have nothing to do, and could go without the function having too few."""
        idle = [
            made for made, endpoint in self._endpoints.items() if made.state is State.READY and not endpoint.in_flight
        ]
        return idle[: max(0, self.num_ready - self._wanted.least)]

    def evict(self, made: Instance) -> None:
        """Let an idle instance go; it is not replaced before the function is called again."""
        self._wanted.evicted(sum(other.serves for other in self.instances) - 1)
        self._drain(made, self.preparation.description.grace_period_s)
        self.wake()

    def endpoint_of(self, made: Instance) -> Endpoint | None:
        """Return what the activator knows of an instance, while it takes calls."""
        return self._endpoints.get(made)

    def _forget(self) -> None:
        self._wanted.forget(self.num_ready, self._clock())

    def _returned(self) -> None:
        """A request comes while there is none."""
        if self._wanted.returned(self._clock()):
            self.wake()

    def step(self, now: float) -> float | None:
        """Measure, decide and act. Returns the seconds until the next step, None where only a wake-up brings it."""
        self._is_refused = False
        if not self.capacity.concurrency.current:
            self._is_quiet.set()
        if not self._wanted.is_awake and self._may_rest(now):
            return self._wanted.until_warm_s(now)
        has_any = any(made.serves for made in self.instances)
        self._wanted.measure(now, self.num_ready, num_held=self.capacity.num_held, has_any=has_any)
        wanted = self._count(now)
        self._converge(wanted)
        self._kill_stuck(now)
        if self._may_rest(now):
            self._forget()
            return self._wanted.until_warm_s(now)
        return self._wanted.wait_s(now, is_settled=self.num_ready == wanted)

    def _count(self, now: float) -> int:
        return self._wanted.count(now, is_proving=self._proof is not None and not self._proof.done())

    def _may_rest(self, now: float) -> bool:
        """Whether nothing runs or should, and nobody who waits could be served by trying now."""
        if self.instances or self.capacity.num_held or self._wanted.least:
            return False
        return self._is_refused or self._backoff.wait_s(now) > 0 or self._count(now) == 0

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
        """Launch an instance, unless starts have failed lately or there is no room: then who waits is told so."""
        wait_s = self._backoff.wait_s(self._clock())
        if wait_s > 0:
            self._give_up(f"instances fail to start: {self.failure}", wait_s)
            return False
        refusal = self._admit(self)
        if refusal is not None:
            self._is_refused = True
            self.failure = refusal
            self._prove(refusal)
            self._give_up(refusal, RETRY_AFTER_S)
            return False
        self.starts.num_ordered += 1
        self.instances.append(self._launcher.launch(self.preparation, self.log, self._on_change))
        return True

    def _give_up(self, reason: str, retry_after_s: float) -> None:
        """Refuse who waits, unless an instance will serve them."""
        if not any(made.serves for made in self.instances):
            self.capacity.give_up(reason, max(1, math.ceil(retry_after_s)))

    def _on_change(self, made: Instance) -> None:
        endpoint = self._endpoints.get(made)
        if made.failure is not None and endpoint is not None:
            endpoint.failure = made.failure.splitlines()[-1]
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
        self.starts.add(made)
        self.failure = None
        self._prove(None)
        endpoint = self._endpoints[made] = Endpoint(made.address, made.id.encode())
        self.capacity.add(endpoint)

    def _ended(self, made: Instance) -> None:
        self.instances.remove(made)
        endpoint = self._endpoints.pop(made, None)
        now = self._clock()
        if endpoint is not None:
            self.capacity.fail(endpoint)
        if made.was_stopped:
            if made.failure is not None:
                self.log.write(made.id, *f"faas: {made.failure}".splitlines())
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
        await self._launcher.stop(made, grace_s if made.failure is None else 0.0)

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
