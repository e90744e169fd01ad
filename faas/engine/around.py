"""What engines that stand around one other engine have in common."""

from __future__ import annotations

from faas.engine.engine import Engine


class Around(Engine):
    """Has `inner` compute. What it does with a call on its way there is each one's own `submit`."""

    def __init__(self, inner: Engine) -> None:
        self._inner = inner

    @property
    def num_queued(self) -> int:
        """Calls that wait in the engine within."""
        return self._inner.num_queued

    @property
    def num_running(self) -> int:
        """Calls that the engine within computes."""
        return self._inner.num_running

    async def start(self) -> None:
        """See `Engine`."""
        await self._inner.start()

    async def drain(self, grace_s: float) -> None:
        """See `Engine`."""
        await self._inner.drain(grace_s)

    async def close(self) -> None:
        """See `Engine`."""
        await self._inner.close()
