"""The control loop of one function: its load is measured, its number of instances decided, instances come and go.

It sleeps without a timer while the function is at zero and nobody asks for it; a held request wakes it at once.
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Callable
from typing import Protocol

from faas.clock import Clock, monotonic
from faas.platform.autoscaler import scaling_settings
from faas.platform.breaker import Capacity
from faas.platform.demand import Rate
from faas.platform.drains import Drains
from faas.platform.endpoint import Endpoint
from faas.platform.habits import Habit
from faas.platform.instances import Instance, OnChange, State
from faas.platform.logs import LogFile
from faas.platform.starts import Starts
from faas.platform.wanted import Wanted
from faas.preparation import Preparation

DEAF_AFTER_S = 5.0
"""An instance answers 504 by itself when a call's time is up; one that has not done so this much later is killed."""
RETRY_AFTER_S = 5.0
"""What callers are told to wait where there was no room for an instance."""
STARTUP_SLACK_S = 5.0
"""An instance gives itself up after its start-up time-out; one that does not within this much more is killed."""


class Launcher(Protocol):
    """Starts and ends instances; see `launcher.Launcher`, which does so with processes."""

    def launch(self, preparation: Preparation, log: LogFile, changed: OnChange, *, num_spared: int = 0) -> Instance:
        """Order an instance; `changed` is called at every change of its state.

        num_spared: how many of the example inputs, from the first on, need not run, since a call that waits does
        what they are for
        """
        ...

    async def stop(self, made: Instance, grace_s: float) -> None:
        """Drain an instance and wait for its end."""
        ...


class ScalingLoop:
    """Keeps one function at the number of instances that its load asks for. `run` it on the platform's event loop.

    `habit` holds its idle times, where these decide how long it stays warm. `admit` is called before each start, and
    returns why there can be none, or None. `grace_s` is Knative's grace before zero.
    """

    def __init__(
        self,
        preparation: Preparation,
        launcher: Launcher,
        log: LogFile,
        *,
        on_imported: Callable[[list[str]], None],
        on_step: Callable[[], object] = lambda: None,
        habit: Habit | None = None,
        admit: Callable[[ScalingLoop], str | None] = lambda _: None,
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
        self._drains = Drains(self.capacity, launcher.stop)
        self._changed = asyncio.Event()
        self._is_quiet = asyncio.Event()
        self._is_refused = False
        self._num_reaching = 0  # who waits for instances that were asked for by hand
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
        wanted = min(num_instances, self.preparation.description.max_instances)
        self._hold(wanted)
        self._converge(wanted)
        self._forget()
        self.wake()
        await self._drains.over()

    async def reach(self, num_instances: int) -> str | None:
        """Wait until this many instances are ready, and keep them for a scale-down window at least.

        Returns why they will not be ready, where a start came to nothing.
        """
        limit_s = self._start_limit_s
        self._num_reaching += 1
        try:
            async with asyncio.timeout(limit_s):
                while self.num_ready < num_instances:
                    if sum(made.serves for made in self.instances) < num_instances:
                        return self.starts.failure or "fewer are wanted by now"
                    failure = await self.starts.prove()
                    if failure is not None:
                        return failure
        except TimeoutError:
            return f"they were not ready within {limit_s:g} s"
        finally:
            self._num_reaching -= 1
        self._hold(num_instances)
        return None

    async def prove(self, num_instances: int) -> str | None:
        """Have this many instances now, and wait for the first that is ready.

        Returns why there is none where one ended without ever having been ready. It is ended by cancelling it.
        """
        if self.num_ready:
            return None
        proof = self.starts.prove()
        await self.scale(num_instances)
        return await proof

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
            self._drains.begin(made, self._endpoints.get(made), grace_s)
        await self._drains.over()

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
        self._drain(made)
        self.wake()

    def endpoint_of(self, made: Instance) -> Endpoint | None:
        """Return what the activator knows of an instance, while it takes calls."""
        return self._endpoints.get(made)

    @property
    def _start_limit_s(self) -> float:
        """How long an instance may take until it is ready."""
        return self.preparation.description.startup_timeout_s + STARTUP_SLACK_S

    def _hold(self, num_instances: int) -> None:
        self._wanted.by_hand(num_instances, self._clock() + self.preparation.description.scaledown_window_s)

    def _forget(self) -> None:
        self._wanted.forget(self.num_ready, self._clock())

    def _returned(self) -> None:
        """A request has come while no other was held or in flight."""
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
        return self._wanted.count(now, is_proving=self.starts.is_proving or self._num_reaching > 0)

    def _may_rest(self, now: float) -> bool:
        """Whether nothing runs or should, and nobody who waits could be served by trying now."""
        if self.instances or self.capacity.num_held or self._wanted.least:
            return False
        return self._is_refused or self.starts.wait_s(now) > 0 or self._count(now) == 0

    def _converge(self, wanted: int) -> None:
        living = [made for made in self.instances if made.serves]
        for _ in range(wanted - len(living)):
            if not self._start():
                break
        if len(living) > wanted:
            for made in sorted(living, key=self._busyness)[: len(living) - wanted]:
                self._drain(made)

    def _busyness(self, made: Instance) -> tuple[bool, int, float]:
        """Those that are not ready go first, then the least busy, of equals the youngest."""
        endpoint = self._endpoints.get(made)
        return made.state is State.READY, endpoint.in_flight if endpoint is not None else 0, -made.ordered_at

    def _start(self) -> bool:
        """Launch an instance, unless starts failed lately or there is no room: requests that wait are then refused."""
        wait_s = self.starts.wait_s(self._clock())
        if wait_s > 0:
            self._give_up(f"instances fail to start: {self.starts.failure}", wait_s)
            return False
        refusal = self._admit(self)
        if refusal is not None:
            self._is_refused = True
            self.starts.refused(refusal)
            self._give_up(refusal, RETRY_AFTER_S)
            return False
        self.starts.num_ordered += 1
        num_spared = 1 if self.capacity.num_held and self.starts.warm_up_is_brief else 0
        made = self._launcher.launch(self.preparation, self.log, self._on_change, num_spared=num_spared)
        self.instances.append(made)
        return True

    def _give_up(self, reason: str, retry_after_s: float) -> None:
        """Refuse the requests that wait, unless an instance will serve them."""
        if not any(made.serves for made in self.instances):
            self.capacity.give_up(reason, max(1, math.ceil(retry_after_s)))

    def _on_change(self, made: Instance) -> None:
        endpoint = self._endpoints.get(made)
        if made.failure is not None and endpoint is not None:
            endpoint.failure = made.failure.splitlines()[-1]
        if made.state is State.READY and endpoint is None:
            self._ready(made)
        elif made.state is State.DRAINING:
            self._drain(made)
        elif made.state is State.STOPPED:
            self._ended(made)
        if made.imported:
            self._on_imported(made.imported)
            made.imported = []
        self.wake()

    def _ready(self, made: Instance) -> None:
        self.starts.succeeded(made)
        endpoint = self._endpoints[made] = Endpoint(made.address, made.id.encode())
        self.capacity.add(endpoint)

    def _ended(self, made: Instance) -> None:
        self.instances.remove(made)
        endpoint = self._endpoints.pop(made, None)
        if endpoint is not None:
            self.capacity.fail(endpoint)
        if made.was_stopped:
            if made.failure is not None:
                self._say(made, made.failure)
            self.starts.stopped(made)
            return
        why = made.failure or f"{made.id} ended with status {made.status}"
        self._say(made, why)
        has_answered = endpoint is not None and endpoint.num_answered > 0
        last_line = why.splitlines()[-1]  # the rest of it, of the user's own files, is for the log alone
        self.starts.failed(made, last_line, self._clock(), has_answered=has_answered)

    def _say(self, made: Instance, why: str) -> None:
        self.log.write(made.id, *f"faas: {why}".splitlines())

    def _drain(self, made: Instance) -> None:
        self._drains.begin(made, self._endpoints.get(made), self.preparation.description.grace_period_s)

    def _unreachable(self, endpoint: Endpoint) -> None:
        made = next((m for m, e in self._endpoints.items() if e is endpoint), None)
        if made is not None and made.worker is not None:
            made.worker.kill(signal.SIGKILL)
        self.wake()

    def _kill_stuck(self, now: float) -> None:
        limit_s = self._start_limit_s
        for made in self.instances:
            if made.state is State.STARTING and now - made.ordered_at > limit_s and made.worker is not None:
                made.failure = f"it was not ready within {limit_s:g} s"
                made.worker.kill(signal.SIGKILL)
