"""The engine around an engine that answers equal calls once, and gives answers again that it has kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from typing import Any, Final

from faas.clock import Clock, monotonic
from faas.engine import refusals
from faas.engine.around import Around
from faas.engine.clock_cache import ClockCache, Key
from faas.engine.deadlines import Deadlines
from faas.engine.digests import Digests
from faas.engine.engine import Engine
from faas.engine.packing import pack, unpack
from faas.errors import DeadlineExceeded, DeadlineUnmeetable
from faas.messages import Call

_OUT_OF_TIME = (DeadlineExceeded, DeadlineUnmeetable)

_NONE: Final = object()

_log = logging.getLogger(__name__)


class Computation:
    """One call of the engine within, for all callers whose input is the same."""

    __slots__ = ("call", "callers", "key", "task")

    def __init__(self, key: Key, call: Call, callers: list[Call]) -> None:
        self.key = key
        self.call = call
        self.callers = callers
        self.task: asyncio.Task[None] | None = None


class Cached(Around):
    """See `Engine` for the contract. Notes `cache` on each call: "hit" where its answer cost no computation of its own.

    Only answers are kept: an error goes to all who wait for it, and the next call computes again. The engine within
    gets a call of our own, with the deadline of the caller who came first, so that one who leaves or runs out of time
    takes nothing from the others: when all have left it is left, and when it runs out of time it is computed again for
    those who still have some. Nobody gets the object that is kept, or another's.

    `scope` names what the answers belong to (function, version, endpoint); it is part of every key. The budget of
    `cache` may be shared with other engines. `within` is the engine that computes.
    """

    def __init__(
        self, inner: Engine, cache: ClockCache[Computation], scope: tuple[str, ...], *, clock: Clock = monotonic
    ) -> None:
        self.within = (inner,)
        super().__init__(inner)
        self._cache = cache
        self._scope: Hashable = scope
        self._digests = Digests(*scope)
        self._clock = clock
        self._deadlines = Deadlines(clock, self._expire)
        self._computation_of: dict[Call, Computation] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = False

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        if self._ending:
            raise refusals.stopping()
        if call.done:
            return
        digest = self._digests.of(call.kwargs)
        if digest is None:
            self._inner.submit(call)
            return
        key = (self._scope, digest)
        packed = self._cache.find(key)
        if packed is not None and self._given_again(call, key, packed):
            return
        call.queued_at = self._clock()
        call.on_leave = self._left
        self._deadlines.add(call)
        computation = self._cache.under_way(key)
        if computation is None:
            self._cache.num_misses += 1
            call.note("cache", "miss")
            self._begin(key, [call])
        else:
            self._cache.num_hits += 1
            call.note("cache", "hit")
            computation.callers.append(call)
            self._computation_of[call] = computation

    async def drain(self, grace_s: float) -> None:
        """See `Engine`."""
        self._ending = True
        await super().drain(grace_s)
        await self._handed_over()

    async def close(self) -> None:
        """See `Engine`."""
        self._ending = True
        await super().close()
        await self._handed_over()
        self._deadlines.close()
        self._cache.drop(self._scope)

    def _given_again(self, call: Call, key: Key, packed: bytes) -> bool:
        value = self._copy(key, packed, _NONE)
        if value is _NONE:
            return False
        self._cache.num_hits += 1
        call.note("cache", "hit")
        call.finish(value)
        return True

    def _copy(self, key: Key, packed: bytes, otherwise: Any) -> Any:
        """Return a new object of what was packed. Where the user's types do not allow it, it is kept no longer."""
        try:
            return unpack(packed)
        except Exception:
            _log.exception("an answer that was kept cannot be given again")
            self._cache.discard(key)
            return otherwise

    def _begin(self, key: Key, callers: list[Call]) -> None:
        """Compute for `callers`, with the time that the most patient of them has."""
        first = max(callers, key=lambda caller: caller.deadline)
        computation = Computation(key, first.again(), callers)
        self._computation_of |= dict.fromkeys(callers, computation)
        self._cache.begin(key, computation)
        computation.task = asyncio.get_running_loop().create_task(self._compute(computation))
        self._tasks.add(computation.task)
        computation.task.add_done_callback(self._tasks.discard)

    async def _compute(self, computation: Computation) -> None:
        try:
            value = await self._inner.answer(computation.call)
        except Exception as error:
            self._failed(computation, error)
        else:
            self._answered(computation, value)

    def _answered(self, computation: Computation, value: Any) -> None:
        packed = pack(value)
        self._cache.complete(computation.key, computation, packed)
        for number, caller in enumerate(computation.callers):
            self._forget(caller)
            _share_times(caller, computation.call)
            caller.finish(value if number == 0 or packed is None else self._copy(computation.key, packed, value))

    def _failed(self, computation: Computation, error: Exception) -> None:
        self._cache.abandon(computation.key, computation)
        patient: list[Call] = []
        for caller in computation.callers:
            if isinstance(error, _OUT_OF_TIME) and caller.deadline > computation.call.deadline:
                patient.append(caller)
                continue
            self._forget(caller)
            _share_times(caller, computation.call)
            caller.fail(error)
        if patient:
            self._begin(computation.key, patient)

    def _expire(self, call: Call) -> None:
        now = self._clock()
        _share_times(call, self._computation_of[call].call)
        call.ended_at = now
        call.fail(refusals.expired(call, now))
        self._left(call)

    def _left(self, call: Call) -> None:
        """Take in that a caller waits no longer; when nobody does, the engine within is left."""
        call.ended_at = call.ended_at or self._clock()
        self._deadlines.remove(call)
        computation = self._computation_of.pop(call)
        computation.callers.remove(call)
        if not computation.callers and computation.task is not None:
            self._cache.abandon(computation.key, computation)
            computation.task.cancel()

    def _forget(self, call: Call) -> None:
        self._deadlines.remove(call)
        del self._computation_of[call]

    async def _handed_over(self) -> None:
        """Wait until what the engine within has ended has reached the callers."""
        while self._tasks:
            await asyncio.wait(self._tasks)


def _share_times(call: Call, computed: Call) -> None:
    """Write on a call what it saw of the computation, which may have begun before it came."""
    call.batch_size = computed.batch_size
    for moment in ("picked_at", "started_at", "ended_at"):
        at = getattr(computed, moment)
        setattr(call, moment, max(at, call.queued_at) if at else 0.0)
