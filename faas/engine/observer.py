"""Who wants to know what batches took."""

from __future__ import annotations

from typing import Protocol

from faas.engine.batch import Report


class Observer(Protocol):
    """Told on the event loop's thread; what it raises is logged and disturbs nothing."""

    def batch_done(self, report: Report) -> None:
        """Take in what one batch took. Not called for handlers on the loop without batching: each call says it all."""
        ...
