"""Changes below folders, one after the other, beside whatever else is waited for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import watchfiles

STEP_MS = 10
"""How long what changes together is gathered; a waiting command answers no later than this after it."""


class Watch:
    """What has changed lately: `changed` is done once something has, and `take` gives the paths and looks on."""

    def __init__(self, changes: AsyncIterator[set[tuple[watchfiles.Change, str]]]) -> None:
        self._changes = changes
        self.changed: asyncio.Future[set[tuple[watchfiles.Change, str]]] = self._next()

    def take(self) -> set[str]:
        """Return the paths that changed, and wait for the next; empty where nothing has."""
        if not self.changed.done():
            return set()
        paths = {path for _, path in self.changed.result()}
        self.changed = self._next()
        return paths

    def _next(self) -> asyncio.Future[Any]:
        return asyncio.ensure_future(anext(self._changes))


@contextlib.asynccontextmanager
async def watching(*folders: Path, only: watchfiles.BaseFilter | None = None) -> AsyncIterator[Watch]:
    """Watch `folders`, from the moment the block begins to its end."""
    async with contextlib.aclosing(watchfiles.awatch(*folders, watch_filter=only, step=STEP_MS)) as changes:
        watch = Watch(changes)
        try:
            await asyncio.sleep(0)  # the watch is set up by its first step
            yield watch
        finally:
            watch.changed.cancel()
            await asyncio.gather(watch.changed, return_exceptions=True)
