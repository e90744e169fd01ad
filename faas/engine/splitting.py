"""The engine around an engine whose items carry rows: it counts them, and splits an item that carries too many."""

from __future__ import annotations

from collections.abc import Callable

from faas.engine import rows
from faas.engine.around import Around
from faas.engine.engine import Engine
from faas.engine.relay import Relay
from faas.engine.rows import Rows
from faas.errors import BadInput
from faas.messages import Call


class Splitting(Around):
    """See `Engine` for the contract. An item of more rows than `most()` is computed in parts, and they are joined.

    Where one part fails, the item does. `room(call)` is how many rows may wait at all where it belongs. `submit` raises
    BadInput for an item that has more, or whose rows cannot be counted.
    """

    def __init__(self, inner: Engine, form: Rows, most: Callable[[], int], room: Callable[[Call], float]) -> None:
        super().__init__(inner)
        self._form = form
        self._most = most
        self._room = room

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        if call.done:
            return
        call.num_rows = self._form.count(call.kwargs)
        room = self._room(call)
        if call.num_rows > room:
            raise BadInput(
                f"the item has {call.num_rows} rows, and at most {room:.0f} may wait; "
                "send it in several calls, or raise max_queue"
            )
        most = self._most()
        if call.num_rows <= most:
            self._inner.submit(call)
        else:
            _Parted(call, most).submit(self._inner)


class _Parted:
    """A call in parts of at most `most` rows. `queued_at` and the like are those of the part that was first or last."""

    def __init__(self, whole: Call, most: int) -> None:
        self._whole = whole
        self._parts: list[Relay] = []
        self._num_left = 0
        self._withdrawn = False
        for kwargs in rows.parts(whole.kwargs, whole.num_rows, most):
            part = Relay(whole, self._ended, kwargs)
            part.num_rows = min(most, whole.num_rows - most * len(self._parts))
            self._parts.append(part)

    def submit(self, engine: Engine) -> None:
        """Have all parts computed. Where one is refused, none is, and it raises what the engine does."""
        self._num_left = len(self._parts)
        try:
            for part in self._parts:
                engine.submit(part)
        except BaseException:
            self._withdrawn = True
            self._leave()
            raise
        self._whole.queued_at = self._parts[0].queued_at
        self._whole.on_leave = lambda _: self._leave()

    def _ended(self, part: Relay) -> None:
        if self._whole.done or self._withdrawn:
            return
        self._num_left -= 1
        if part.error is not None:
            part.hand_over()
            self._leave()
        elif self._num_left == 0:
            self._finish()

    def _finish(self) -> None:
        whole, parts = self._whole, self._parts
        whole.picked_at = min(part.picked_at for part in parts)
        whole.started_at = min(part.started_at for part in parts)
        whole.ended_at = max(part.ended_at for part in parts)
        whole.batch_size = max(part.batch_size for part in parts)
        whole.finish(rows.joined([part.value for part in parts]))

    def _leave(self) -> None:
        for part in self._parts:
            part.leave()
