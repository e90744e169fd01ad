"""The contract of an engine."""

from __future__ import annotations

from typing import Any, Protocol

from faas.messages import Call


class Engine(Protocol):
    """Takes calls for one endpoint of a handler, and gives each exactly one outcome. Belongs to the event loop.

    A call whose deadline passes fails at once; what blocks goes on holding its place until it really ends. A call that
    is left while it waits is never computed.
    """

    def submit(self, call: Call) -> None:
        """Take a call. It gets its outcome through `Call.put`, `finish` and `fail`. One that has been left is ignored.

        Raises:
            QueueFull: there is no room; says when there may be.
            DeadlineUnmeetable: the function's promise could not be kept for it.
            Unavailable: the engine is draining.
            BadInput: the call can be part of no batch: its rows or its length do not suit, its sequence has not begun.
        """
        ...

    async def answer(self, call: Call) -> Any:
        """Take a call of a handler that does not stream, and return its value: the shortest way there is.

        Cancelling it is leaving. Where it runs the handler itself it ends with it, after the outcome of the call if the
        handler swallows its cancellation.

        Raises:
            Refused: as `submit` does.
            BaseException: whatever the call failed with.
        """
        self.submit(call)
        try:
            return await call.result()
        finally:
            call.leave()

    @property
    def num_queued(self) -> int:
        """Calls that wait."""
        ...

    @property
    def num_running(self) -> int:
        """Calls that are being computed, those whose callers have gone included."""
        ...

    async def start(self) -> None:
        """Be ready for calls."""
        ...

    async def drain(self, grace_s: float) -> None:
        """Take no new calls and finish those in hand; after `grace_s` seconds the rest fail with Unavailable."""
        ...

    async def close(self) -> None:
        """End at once; what is in hand fails with Unavailable."""
        ...
