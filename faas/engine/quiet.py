"""The end of an engine: waiting until it has nothing in hand any more."""

from __future__ import annotations

import asyncio
from typing import Final

STOPPING_S: Final = 1.0
"""How long handlers that were cancelled are waited for; one that swallows its cancellation is left behind."""


class Quiet:
    """Set once, by an engine that takes no new calls, when its last call has ended."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def note(self) -> None:
        """Say that nothing is in hand, and nothing more will be."""
        self._event.set()

    async def within(self, seconds: float) -> bool:
        """Wait for that, `seconds` at most. Returns whether it came."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True
