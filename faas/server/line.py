"""The line to the caller: who hangs up is seen, whatever middleware the user has put in between."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.types import Message, Receive

from faas.messages import Call

KEY: Final = "faas.line"
WATCH_AFTER_S: Final = 0.025

_GONE: Final[Message] = {"type": "http.disconnect"}


class Line:
    """Stands between the server's `receive` and the user's middleware, and keeps an ear of its own on the server's.

    Some middleware hands on a `receive` that never tells of a disconnect. So once the body has come in full, the server
    is listened to here, once, for whoever asks.
    """

    __slots__ = ("_complete", "_hangup", "_receive")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._complete = False
        self._hangup: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """Return the next message, as ASGI has it."""
        if self._complete:
            await self.gone()
            return _GONE
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._complete = True
        return message

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


class Watch:
    """Tells a call when its caller leaves. It begins late, so that short calls do not pay for it."""

    __slots__ = ("_call", "_listening", "_receive", "_scope", "_timer")

    def __init__(self, call: Call, scope: Any, receive: Receive, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._scope = scope
        self._receive = receive
        self._listening: asyncio.Task[None] | None = None
        self._timer = loop.call_later(WATCH_AFTER_S, self._begin)

    def close(self) -> None:
        """Stop watching."""
        if self._listening is None:
            self._timer.cancel()
        else:
            self._listening.cancel()

    def _begin(self) -> None:
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        line: Line | None = self._scope.get(KEY)
        await (_until_gone(self._receive) if line is None else line.gone())
        self._call.leave()
