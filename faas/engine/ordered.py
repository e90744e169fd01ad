"""The engine around an engine that gives answers in the order in which the calls came."""

from __future__ import annotations

from collections import deque

from faas.clock import Clock, monotonic
from faas.engine import refusals
from faas.engine.around import Around
from faas.engine.deadlines import Deadlines
from faas.engine.engine import Engine
from faas.engine.relay import Relay
from faas.errors import CallerGone, DeadlineExceeded, Refused
from faas.messages import Call

_NOT_COMPUTED = (Refused, DeadlineExceeded, CallerGone)


class Ordered(Around):
    """See `Engine` for the contract. An answer, or an error of the handler, waits until all before it are there.

    A call that is not computed (refused, left, out of time) says so at once, and nobody waits for it.
    """

    def __init__(self, inner: Engine, *, clock: Clock = monotonic) -> None:
        super().__init__(inner)
        self._clock = clock
        self._line: deque[Relay] = deque()
        self._deadlines = Deadlines(clock, self._expire)  # of those who have an answer that is held back

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        if call.done:
            return
        relay = Relay(call, self._ended)
        self._line.append(relay)
        try:
            self._inner.submit(relay)
        except BaseException:
            self._line.pop()
            raise
        call.queued_at = relay.queued_at
        call.on_leave = lambda _: self._left(relay)

    async def close(self) -> None:
        """See `Engine`."""
        await super().close()
        self._deadlines.close()

    def _ended(self, relay: Relay) -> None:
        if isinstance(relay.error, _NOT_COMPUTED):
            relay.hand_over()
        else:
            self._deadlines.add(relay.whole)
        self._let_go()

    def _let_go(self) -> None:
        """Hand over what nobody stands before any more."""
        while self._line and self._line[0].done:
            relay = self._line.popleft()
            self._deadlines.remove(relay.whole)
            relay.hand_over()

    def _left(self, relay: Relay) -> None:
        self._deadlines.remove(relay.whole)
        relay.leave()

    def _expire(self, call: Call) -> None:
        """Take in that the time of a call is up while its answer is held back."""
        now = self._clock()
        call.ended_at = now
        call.fail(refusals.expired(call, now))
