"""A call that an engine makes of its own in the place of a caller's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from faas.messages import Call


class Relay(Call):
    """Stands for `whole`, or for a part of it, in the engine within; tells `ended` when it has its outcome.

    Events of a stream are the caller's as they come. What ends it is not: whoever made the relay hands that over.
    """

    __slots__ = ("_ended", "whole")

    def __init__(self, whole: Call, ended: Callable[[Relay], None], kwargs: dict[str, Any] | None = None) -> None:
        super().__init__(whole.kwargs if kwargs is None else kwargs, whole.context, whole.priority)
        self.num_rows = whole.num_rows
        self.queue_timeout_s = whole.queue_timeout_s
        self.whole = whole
        self._ended = ended

    @property
    def error(self) -> BaseException | None:
        """What it failed with."""
        return self._error

    @property
    def value(self) -> Any:
        """Its answer, once it ended well."""
        return self._events[0] if self._events else None

    def hand_over(self) -> None:
        """Give the caller this outcome. Nothing happens where it has one."""
        self.tell_times()
        if self._error is not None:
            self.whole.fail(self._error)
        else:
            self.whole.finish(*self._events)

    def tell_times(self) -> None:
        """Write on the caller's call when what became of this one."""
        whole = self.whole
        if not whole.done:
            whole.picked_at, whole.started_at, whole.ended_at = self.picked_at, self.started_at, self.ended_at
            whole.batch_size = self.batch_size

    def put(self, value: Any) -> None:
        """See `Call`."""
        if not self.done:
            self.tell_times()
            self.whole.put(value)

    @property
    def backlog(self) -> int:
        """See `Call`."""
        return self.whole.backlog

    async def room(self, most: int) -> None:
        """See `Call`."""
        await self.whole.room(most)

    def _end(self) -> None:
        super()._end()
        self._ended(self)
