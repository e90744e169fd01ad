"""The engine around an engine that keeps the calls of a sequence in order and in one slot."""

from __future__ import annotations

import asyncio
import math
from typing import Final

import msgspec

from faas.clock import Clock, monotonic
from faas.engine import refusals
from faas.engine.around import Around
from faas.engine.deadlines import Deadlines
from faas.engine.engine import Engine
from faas.engine.quiet import Quiet
from faas.engine.relay import Relay
from faas.engine.sequences import Change, NoSequence, Sequences
from faas.errors import BadInput
from faas.messages import Call, Turn

_TICK_S: Final = 0.001


class Sequenced(Around):
    """See `Engine` for the contract. The calls of a sequence reach the engine within one at a time.

    The handler sees `Context.sequence` with the slot. A call without a turn is a sequence of its own. At most
    `max_waiting` calls wait for their turn or for a slot. `submit` raises BadInput for a call of a sequence that has
    not begun.
    """

    def __init__(
        self, inner: Engine, sequences: Sequences[Relay], max_waiting: int, *, clock: Clock = monotonic
    ) -> None:
        super().__init__(inner)
        self._sequences = sequences
        self._max_waiting = max_waiting
        self._clock = clock
        self._turns: dict[Relay, Turn] = {}
        self._relays: dict[Call, Relay] = {}  # of calls that wait for their turn
        self._deadlines = Deadlines(clock, self._expire)
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False
        self._quiet = Quiet()

    @property
    def num_queued(self) -> int:
        """Calls that wait for their turn, for a slot, or to be computed."""
        return self._sequences.num_waiting + super().num_queued

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        if self._ending:
            raise refusals.stopping()
        if call.done:
            return
        turn = call.context.sequence or Turn(f"\0{id(call)}", start=True, end=True)
        if self._sequences.num_waiting >= self._max_waiting:
            raise refusals.queue_full(self._sequences.num_waiting, 0.0)
        relay = Relay(call, self._ended)
        try:
            change = self._sequences.arrive(relay, turn)
        except NoSequence:
            raise BadInput(
                f"sequence {turn.id!r} has not begun, has ended, or was idle for too long: "
                "begin it with X-Sequence-Start: 1"
            ) from None
        self._turns[relay] = turn
        call.queued_at = self._clock()
        call.on_leave = lambda _: relay.leave()
        self._relays[call] = relay
        self._deadlines.add(call)
        self._follow(change)

    async def drain(self, grace_s: float) -> None:
        """See `Engine`."""
        self._ending = True
        began = self._clock()
        self._note_quiet()
        if not await self._quiet.within(grace_s):
            for relay in list(self._relays.values()):
                relay.fail(refusals.stopped())
        await super().drain(max(0.0, grace_s - (self._clock() - began)))

    async def close(self) -> None:
        """See `Engine`."""
        await self.drain(0)
        await super().close()
        self._deadlines.close()
        if self._timer is not None:
            self._timer.cancel()

    def _follow(self, change: Change[Relay]) -> None:
        """Do what was decided: some calls run now, some never can."""
        for step in change.running:
            relay = step.item
            relay.context.sequence = msgspec.structs.replace(step.turn, slot=step.slot)
            self._no_longer_waits(relay)
            try:
                self._inner.submit(relay)
            except Exception as error:
                relay.fail(error)
        for relay in change.lost:
            turn = self._turns.pop(relay)
            relay.fail(BadInput(f"sequence {turn.id!r} never began: its first call was not computed"))
        self._watch_idle()

    def _ended(self, relay: Relay) -> None:
        """Take in that a call has its outcome, whether it waited or ran."""
        self._no_longer_waits(relay)
        relay.hand_over()
        turn = self._turns.pop(relay, None)
        if turn is not None:
            self._follow(self._sequences.done(relay, turn, self._clock(), computed=relay.picked_at > 0.0))
        self._note_quiet()

    def _no_longer_waits(self, relay: Relay) -> None:
        self._relays.pop(relay.whole, None)
        self._deadlines.remove(relay.whole)

    def _expire(self, call: Call) -> None:
        """Take in that the time of a call is up while it waits for its turn."""
        relay, now = self._relays[call], self._clock()
        relay.ended_at = now
        relay.fail(refusals.expired(call, now))

    def _watch_idle(self) -> None:
        """Look again when a slot is lost. Slots fall idle in the order in which they are lost, so one timer does."""
        until = self._sequences.idle_until
        if self._timer is None and until < math.inf:
            delay_s = max(_TICK_S, until - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_idle)

    def _on_idle(self) -> None:
        self._timer = None
        self._follow(self._sequences.expire(self._clock()))

    def _note_quiet(self) -> None:
        if self._ending and not self._turns:
            self._quiet.note()
