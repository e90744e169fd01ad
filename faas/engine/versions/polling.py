"""A source that does not tell of its changes, looked at again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from faas.engine.versions.agenda import Agenda
from faas.engine.versions.source import SourceError
from faas.errors import SettingError

logger = logging.getLogger(__name__)


class Poll:
    """Calls `look` every `every_s` seconds, never where that is 0, once it has begun and while it `goes_on`.

    `name` is the function's, for the log.
    """

    def __init__(
        self,
        name: str,
        every_s: float,
        look: Callable[[], Awaitable[None]],
        agenda: Agenda,
        *,
        goes_on: Callable[[], bool],
    ) -> None:
        self._name = name
        self._every_s = every_s
        self._look = look
        self._agenda = agenda
        self._goes_on = goes_on
        self._runs = False

    def begin(self) -> None:
        """Begin, unless it has."""
        if self._every_s > 0 and not self._runs and self._goes_on():
            self._runs = True
            self._agenda.begin(self._run())

    async def _run(self) -> None:
        while self._goes_on():
            await asyncio.sleep(self._every_s)
            try:
                await self._look()
            except (SourceError, SettingError) as error:
                logger.debug("%s: %s", self._name, error)  # the status says it
            except Exception:
                logger.exception("the versions of %s cannot be looked for", self._name)
        self._runs = False
