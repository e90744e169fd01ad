"""The connection to the caller: a disconnect is noticed, whatever middleware the user has put in between."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send

from faas.clock import Clock, monotonic
from faas.messages import Call

KEY: Final = "faas.line"
WATCH_AFTER_S: Final = 0.025
LATE_AFTER_S: Final = 0.05
"""How long after the time of a call is up its own task may take to say so."""

Tell = tuple[Callable[[Call, Any, Send], Awaitable[None]], Any, Send]
"""What tells a caller that its call has failed, and what it is given beside the call."""

_GONE: Final[Message] = {"type": "http.disconnect"}


class Line:
    """Stands between the server and the user's middleware, and listens for the caller's disconnect itself.

    Some middleware hands on a `receive` that never tells of a disconnect. So once the body has come in full, the server
    is listened to here, once, for whoever asks. `complete` says that it has, `answered` that an answer has begun.
    """

    __slots__ = ("_hangup", "_receive", "_send", "answered", "complete")

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.complete = False
        self.answered = False
        self._hangup: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """Return the next message, as ASGI has it."""
        if self.complete:
            await self.gone()
            return _GONE
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.complete = True
        return message

    async def send(self, message: Message) -> None:
        """Send a message, as ASGI has it."""
        self.answered = True
        await self._send(message)

    async def gone(self) -> None:
        """Wait until the caller has left. What is left of the body is dropped."""
        if self._hangup is None:
            self._hangup = asyncio.create_task(_until_gone(self._receive))
        await asyncio.shield(self._hangup)

    def close(self) -> None:
        """Stop listening."""
        if self._hangup is not None:
            self._hangup.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Watches:
    """Tells calls when their callers leave, and callers when the time of their calls is up; of one instance.

    Listening begins `WATCH_AFTER_S` after a call was added, so that short calls pay for a dictionary entry and nothing
    more: one timer serves them all. Whose time is up is told by the call's own task, unless that is held up in a
    handler that swallows its cancellation: `tell` then does it, where there is one, and the call is watched no longer.
    """

    __slots__ = ("_clock", "_listening", "_timer", "_waiting")

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._waiting: dict[Call, tuple[float, Scope, Receive, Tell | None]] = {}  # in the order in which they came
        self._listening: dict[Call, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Call, scope: Scope, receive: Receive, tell: Tell | None) -> None:
        """Watch a call whose request has been read to its end."""
        self._waiting[call] = (self._clock(), scope, receive, tell)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._look)

    def remove(self, call: Call) -> bool:
        """Stop watching a call. False if it was not watched any more: its caller has been told."""
        if self._waiting.pop(call, None) is not None:
            return True
        listening = self._listening.pop(call, None)
        if listening is not None:
            listening.cancel()
        return listening is not None

    def _look(self) -> None:
        """Begin to listen for the calls that are old enough; the timer is set again for the next one."""
        self._timer = None
        loop, now = asyncio.get_running_loop(), self._clock()
        while self._waiting:
            call, (added_at, scope, receive, tell) = next(iter(self._waiting.items()))
            wait_s = added_at + WATCH_AFTER_S - now
            if wait_s > 0.0:
                self._timer = loop.call_later(wait_s, self._look)
                return
            del self._waiting[call]
            self._listening[call] = loop.create_task(self._listen(call, scope, receive, tell))

    async def _listen(self, call: Call, scope: Scope, receive: Receive, tell: Tell | None) -> None:
        line: Line | None = scope.get(KEY)
        left_s = call.deadline - self._clock() + LATE_AFTER_S
        try:
            async with asyncio.timeout(None if left_s == math.inf else max(0.0, left_s)):
                await (_until_gone(receive) if line is None else line.gone())
        except TimeoutError:
            if tell is not None and call.has_failed and self._listening.pop(call, None) is not None:
                refuse, asked, send = tell
                await refuse(call, asked, send)
            return
        call.leave()
