"""The connection to the caller: a call is told when it is lost, and a caller when the time of its call is up."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send

from faas.clock import Clock, monotonic
from faas.engine.alarm import Alarm
from faas.messages import Call
from faas.server.cycle import Cycle

KEY: Final = "faas.line"
LATE_AFTER_S: Final = 0.05
"""How long after the time of a call is up its own task may take to say so."""

Tell = tuple[Callable[[Call, Any, Send], Awaitable[None]], Any, Send]
"""What tells a caller that its call has failed, and what it is given beside the call."""


class Line:
    """Stands between the server and the user's middleware, which may hand on something else than it was given.

    `complete` says that the body has come in full, `answered` that an answer has begun.
    """

    __slots__ = ("_receive", "_send", "answered", "complete")

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.complete = False
        self.answered = False

    @property
    def cycle(self) -> Cycle | None:
        """What the server answers with."""
        return _cycle(self._receive)

    async def receive(self) -> Message:
        """Return the next message, as ASGI has it."""
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.complete = True
        return message

    async def send(self, message: Message) -> None:
        """Send a message, as ASGI has it."""
        self.answered = True
        await self._send(message)


class Watches:
    """Tells calls when their callers leave, and callers when the time of their calls is up; of one instance.

    The first is told by the connection itself, so that a call costs no task that waits for it. Whose time is up is told
    by the call's own task, unless that is held up in a handler that swallows its cancellation: `tell` then does it,
    where there is one, and the call is watched no longer. One timer, which is not set anew for each call, serves all.
    """

    __slots__ = ("_alarm", "_clock", "_looks_at", "_telling", "_watched")

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._watched: dict[Call, tuple[Cycle | None, Tell | None]] = {}
        self._alarm = Alarm(clock, self._look)
        self._looks_at = math.inf
        self._telling: dict[Call, asyncio.Future[None]] = {}

    def add(self, call: Call, scope: Scope, receive: Receive, tell: Tell | None) -> None:
        """Watch a call whose request has been read to its end."""
        line: Line | None = scope.get(KEY)
        cycle = _cycle(receive) if line is None else line.cycle
        self._watched[call] = cycle, tell
        late_at = call.deadline + LATE_AFTER_S
        if late_at < self._looks_at:
            self._look_at(late_at)
        if cycle is not None:
            cycle.tell_when_gone(call.leave)

    def remove(self, call: Call) -> bool:
        """Stop watching a call. False if it was not watched any more: its caller has been told."""
        found = self._watched.pop(call, None)
        if found is None:
            return False
        if found[0] is not None:
            found[0].on_gone = None
        return True

    async def told(self, call: Call) -> bool:
        """Stop watching a call that has failed. True if its caller has been told, once that is done.

        A loop that was held up comes to both at once: its own task may be over before the telling has begun.
        """
        if self.remove(call):
            return False
        telling = self._telling.get(call)
        if telling is not None:
            await asyncio.wait((telling,))
        return True

    def _look_at(self, moment: float) -> None:
        self._looks_at = moment
        self._alarm.set(None if moment == math.inf else moment)

    def _look(self) -> None:
        """Tell those whose time is up, and look again when that of the next one is."""
        now, soonest = self._clock() + self._alarm.early_s, math.inf
        for call, (_, tell) in list(self._watched.items()):
            late_at = call.deadline + LATE_AFTER_S
            if late_at > now:
                soonest = min(soonest, late_at)
            elif tell is not None and call.has_failed:
                self.remove(call)
                refuse, asked, send = tell
                telling = self._telling[call] = asyncio.ensure_future(refuse(call, asked, send))
                telling.add_done_callback(partial(self._end_telling, call))
        self._look_at(soonest)

    def _end_telling(self, call: Call, _: asyncio.Future[None]) -> None:
        del self._telling[call]


def _cycle(receive: Receive) -> Cycle | None:
    """Return what a server of ours gives messages by; None under another one, which tells nobody of a disconnect."""
    found = getattr(receive, "__self__", None)
    return found if isinstance(found, Cycle) else None
