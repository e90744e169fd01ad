"""One instance: its state, or several versions of it, the model thread, the engines, and what it counts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

from faas.clock import Clock, monotonic
from faas.engine.assembly import Shared
from faas.engine.engine import Engine
from faas.engine.gradients import off_once_imported
from faas.engine.servable import Servable
from faas.engine.thread import ModelThread
from faas.errors import StartFailed, Unavailable
from faas.function import Function
from faas.handler import Handler
from faas.metrics import Metrics

if TYPE_CHECKING:
    from faas.engine.versions.keeper import Keeper
    from faas.engine.versions.lifecycle import Entry
    from faas.engine.versions.supply import Supply

State = Literal["starting", "ready", "draining", "failed"]

logger = logging.getLogger(__name__)

STOOD_AT: Final = "; it was at:\n"
"""What stands between the reason of a failed start and the stack that it stood at."""
_TEARDOWN_S: Final = 10.0
FRESH_S: Final = 5.0
"""How long after it became ready an instance counts calls as having waited for it, where nobody says which did."""
STUCK_AFTER_S: Final = 5.0
"""How long after `timeout_s` a plain handler that nobody waits for any more may still run."""


class Runtime:
    """The composition of one instance. Everything here belongs to the event loop's thread.

    With a `supply` it serves versions of the function's state, and `versions` holds them; else `handler` has the state.

    It can be made ahead of need, in a zygote: `begin` then says which instance this process is.
    """

    def __init__(
        self,
        function: Function,
        handler: Handler,
        *,
        version: str,
        supply: Supply | None = None,
        debug: bool = False,
        clock: Clock = monotonic,
    ) -> None:
        self.function = function
        self.handler = handler
        self.instance_id = ""
        self.version = version
        self.phases: dict[str, float] = {}
        self.debug = debug
        self.clock = clock
        self.reason = "starting"
        self.admitting = False
        self.thread = ModelThread(f"model {function.name}")
        self.engines: dict[str, Engine] = {}
        self.metrics = _metrics(function, version, clock)
        shared = Shared.of(function, self.thread, clock, self.metrics)
        self.metrics.cache, self.metrics.selector = shared.cache, shared.selector
        self.learner = None if shared.selector is None else shared.selector.learner
        self.times = shared.times
        self._servable = Servable(handler, shared, version)
        self.versions = None if supply is None else _keeper(supply, shared, self._version_moved)
        self.cold_until = -math.inf
        self._state: State = "starting"
        self._started = asyncio.Event()
        self._on_recycle: Callable[[], None] | None = None
        self._num_calls_left: int | None = None
        self._loaded = False

    def begin(
        self,
        instance_id: str,
        *,
        phases: dict[str, float] | None = None,
        on_recycle: Callable[[], None] | None = None,
        on_stuck: Callable[[str], None] | None = None,
        is_fresh: bool = False,
    ) -> None:
        """Be this instance from now on.

        `phases` are the seconds that the parts of its start took (`fork`, `thaw`, ...), by name; whoever measures one
        puts it there, `load` included. `on_recycle` is called once, after `recycle_after` calls.
        `on_stuck` is called once, with the reason, when a handler goes on `STUCK_AFTER_S` after the time of its call.
        With `is_fresh` nobody says which calls waited for the start: those count that come before the first answer, and
        within `FRESH_S` of it being ready.
        """
        self.instance_id = instance_id
        self.phases = phases if phases is not None else {}
        self.metrics.begin(self.phases)
        self._on_recycle = on_recycle
        self._num_calls_left = self.function.spec.recycle_after if on_recycle is not None else None
        self.cold_until = math.inf if is_fresh else -math.inf
        if on_stuck is not None:
            patience_s = self.function.spec.calls.timeout_s + STUCK_AFTER_S
            self.thread.watch(patience_s, lambda: on_stuck(self._where_stuck()))

    @property
    def state(self) -> State:
        """Where the instance is in its life."""
        return self._state

    @property
    def is_ready(self) -> bool:
        """Whether it wants calls."""
        return self._state == "ready"

    async def start(self, load: Callable[[], object], *, num_spared: int = 0) -> None:
        """Run `load` (`setup()`, or a thaw) on the model thread, make the engines, warm up, and be ready.

        num_spared: of the example inputs, from the first on, need not run

        Raises:
            StartFailed: one of these failed, or took longer than `startup_timeout_s`. The state says so too.
        """
        limit_s = self.function.spec.calls.startup_timeout_s
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                await self._load(load)
                await self._open(num_spared)
        except StartFailed as error:
            raise self._failed(str(error)) from error
        except Exception as error:
            if limit.expired():
                stood = f"{STOOD_AT}{self.thread.stack()}"
                raise self._failed(f"it took longer than startup_timeout_s={limit_s:g}{stood}") from None
            raise self._failed(_told(error)) from error
        if self._state == "starting":
            self._enter("ready", "ready")
            self.admitting = True
            self.cold_until = min(self.cold_until, self.clock() + FRESH_S)

    async def started(self, within_s: float) -> None:
        """Wait until the start has come to its end, good or bad, for `within_s` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._started.wait()

    def admit(self) -> None:
        """Let a call in.

        Raises:
            Unavailable: not now; says why.
        """
        if not self.admitting:
            raise self.refusal()

    def refusal(self) -> Unavailable:
        """Return why calls are not taken now."""
        return Unavailable(f"the instance is {self._state}: {self.reason}", 1.0 if self._state != "failed" else 5.0)

    def answered_cold(self) -> None:
        """Count the start of this instance as a cold one: a call had to wait for it."""
        self.metrics.num_cold_starts = 1
        self.cold_until = min(self.cold_until, self.clock())

    def answered(self) -> None:
        """Count one answered call towards `recycle_after`."""
        if self._num_calls_left is not None:
            self._num_calls_left -= 1
            if self._num_calls_left == 0 and self._on_recycle is not None:
                self._on_recycle()

    def leave_rotation(self) -> None:
        """Say at the probes that calls should go elsewhere; those that come are still taken."""
        if self._state in ("starting", "ready"):
            self._enter("draining", "it was told to stop")

    async def drain(self, grace_s: float) -> None:
        """Take no more calls and finish those in flight; what is unfinished after `grace_s` fails."""
        self.leave_rotation()
        self.admitting = False
        await asyncio.gather(*(engine.drain(grace_s) for engine in self.engines.values()))

    async def close(self) -> None:
        """Run the handler's `teardown()` on the model thread, and let the thread end."""
        self.admitting = False
        if self.versions is not None:
            await self.versions.close()
        await asyncio.gather(*(engine.close() for engine in self.engines.values()))
        if self.times is not None:
            self.times.keep()
        if not self.thread.is_busy:
            for handler in self._handlers:
                await self._tear_down(handler)
            await self.thread.close()
        elif self._handlers:
            logger.error("teardown() does not run, since the model thread is still busy:\n%s", self.thread.stack())

    @property
    def _handlers(self) -> list[Handler]:
        """Those that have their state."""
        if self.versions is not None:
            return self.versions.handlers
        return [self.handler] if self._loaded else []

    async def _tear_down(self, handler: Handler) -> None:
        limit = asyncio.timeout(_TEARDOWN_S)
        try:
            async with limit:
                await self.thread.run(handler.teardown)
        except Exception:
            if limit.expired():
                logger.error("teardown() took longer than %g s; it is at:\n%s", _TEARDOWN_S, self.thread.stack())
            else:
                logger.exception("teardown() failed")

    def _where_stuck(self) -> str:
        after_s = self.function.spec.calls.timeout_s + STUCK_AFTER_S
        return f"{self.thread.stack()}a handler had not ended after {after_s:g} s; the log says where it was"

    def _enter(self, state: State, reason: str) -> None:
        self._state = self.metrics.state = state
        self.reason = reason
        self._started.set()  # nothing goes back to starting

    def _failed(self, reason: str) -> StartFailed:
        self._enter("failed", reason)
        return StartFailed(f"{self.function.name} did not start: {reason}")

    async def _load(self, load: Callable[[], object]) -> None:
        began = self.clock()
        await self.thread.run(load)
        self._loaded = True
        if self.versions is None and not self.phases.keys() & {"setup", "thaw"}:
            self.phases["setup"] = self.clock() - began

    async def _open(self, num_spared: int) -> None:
        if not self.function.spec.grad:
            loop = threading.get_ident()
            off_once_imported(lambda thread: thread == loop or self.thread.is_own(thread))
        if self.versions is not None:
            await self._open_versions(self.versions)
            return
        await self._servable.open()
        self.engines = self._servable.engines
        self.metrics.queue_depth = lambda: self._servable.num_queued
        if len(self.function.spec.warmup or ()) > num_spared:
            began = self.clock()
            await self._servable.warm_up(num_spared)
            self.phases["warmup"] = self.clock() - began

    async def _open_versions(self, versions: Keeper) -> None:
        began = self.clock()
        self.engines = dict(versions.engines)
        self.metrics.queue_depth = lambda: sum(engine.num_queued for engine in self.engines.values())
        await versions.start()
        self.phases["thaw"] = self.clock() - began

    def _version_moved(self, _: Entry) -> None:
        if self.versions is not None:
            self.metrics.snapshot_bytes = self.versions.mapped_bytes
            self.metrics.versions = dict(Counter(entry.step.state.name for entry in self.versions.entries))


def _keeper(supply: Supply, shared: Shared, on_step: Callable[[Entry], None]) -> Keeper:
    from faas.engine.versions.keeper import Keeper  # nothing to a function without versions
    from faas.spec import Versions

    return Keeper(shared.function.spec.versions or Versions(), supply, shared, on_step=on_step)


def _metrics(function: Function, version: str, clock: Clock) -> Metrics:
    batching = function.spec.batching
    slo_ms = batching.slo_ms if batching is not None else None
    slo_s = slo_ms / 1000.0 if slo_ms is not None else None
    return Metrics(function.name, version, slo_s=slo_s, num_gpus=function.spec.resources.num_gpus, clock=clock)


def _told(error: BaseException) -> str:
    """Return what the error says, and the line of the user's own that it comes from."""
    from faas.users_errors import users_line  # the way of errors alone

    line = users_line(error) or (users_line(error.__cause__) if error.__cause__ is not None else "")
    text = "".join(traceback.format_exception_only(error)).strip()
    return f"{text} ({line})" if line else text
