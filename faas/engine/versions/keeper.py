"""Holds the versions that an instance should hold: looks where they are, loads and unloads, and leads calls to them.

The decisions are in `lifecycle`, `plan` and `labels`; what takes its time is done beside the calls, see `bringing`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from faas.engine.aside import aside
from faas.engine.assembly import Shared
from faas.engine.servable import Servable
from faas.engine.versions import labels, plan, report
from faas.engine.versions.admission import Room
from faas.engine.versions.agenda import Agenda
from faas.engine.versions.bringing import Bringer, NoRoom
from faas.engine.versions.lanes import Lanes
from faas.engine.versions.lifecycle import Entry, Lifecycle
from faas.engine.versions.plan import Wishes
from faas.engine.versions.polling import Poll
from faas.engine.versions.retries import Retries
from faas.engine.versions.source import Look, SourceError
from faas.engine.versions.states import Step
from faas.engine.versions.supply import Supply
from faas.engine.versions.transitions import RULES, Load
from faas.engine.versions.versioned import Versioned
from faas.errors import SettingError, StartFailed, named
from faas.handler import Handler
from faas.spec.versions import Versions

logger = logging.getLogger(__name__)


class Keeper:
    """The versions of one function in one instance. Belongs to the event loop's thread, and can be made before.

    `engines` answer calls, by path. `on_step` is called with each version that takes a step.
    """

    def __init__(
        self, spec: Versions, supply: Supply, shared: Shared, *, on_step: Callable[[Entry], None] = lambda _: None
    ) -> None:
        self.name = shared.function.name
        self.lanes = Lanes(self.name, self.why_none)
        self.engines = {
            one.path: Versioned(one.path, self.lanes, lambda: self._servables.values())
            for one in shared.function.endpoints
        }
        self.problem: str | None = None
        """Why the source or its file cannot be followed now, if it cannot."""
        self._spec = spec
        self._source = supply.source
        self._clock = shared.clock
        self._on_step = on_step
        self._bringer = Bringer(supply, shared, Room(spec.capacity_bytes))
        self._lifecycle = Lifecycle(Retries(spec.load_retries, spec.retry_s), changed=self._took_step)
        self._plan = plan.make(spec, Wishes())
        self._places: dict[int, str] = {}
        self._stamps: Mapping[int, Hashable] = {}
        self._servables: dict[int, Servable] = {}
        self._ready: set[int] = set()
        self._fallen_back: set[int] = set()
        self._is_loaded = False
        self._is_starting = False
        self._num_loading = 0
        self._warned: frozenset[str] = frozenset()
        self._looking = asyncio.Lock()
        self._agenda = Agenda(shared.clock)
        self._poll = Poll(self.name, spec.poll_s, self.look, self._agenda, goes_on=lambda: not self.is_explicit)

    @property
    def entries(self) -> list[Entry]:
        """All versions that are known, the highest first."""
        return self._lifecycle.entries

    @property
    def handlers(self) -> list[Handler]:
        """Those that have their state, and so may have to be torn down."""
        return [servable.handler for servable in self._servables.values()]

    @property
    def mapped_bytes(self) -> int:
        """What of the snapshots of all that is held is mapped."""
        return self._bringer.mapped_bytes

    @property
    def is_explicit(self) -> bool:
        """Whether nothing is looked at, or held, that is not asked for."""
        return self._plan.is_explicit

    def overview(self) -> dict[str, Any]:
        """Return all that is known, as JSON."""
        return report.overview(self.entries, labels=self.lanes.labels, default=self.lanes.default, problem=self.problem)

    async def start(self) -> None:
        """Look, and hold what is to be held; returns when calls that ask for no version can be answered.

        Raises:
            StartFailed: the source or its file cannot be followed, or no version that is to be held can be loaded.
        """
        gc.freeze()  # a version that goes is looked for among what has come since, which takes next to no time
        self._is_starting = True
        try:
            await self.look()
        except (SourceError, SettingError) as error:
            raise StartFailed(str(error)) from error
        await self._settled()
        while self.lanes.default is None and self._fall_back():
            await self._settled()
        self._is_starting = False
        if self.lanes.default is None and self._is_to_hold:
            raise StartFailed(self.why_none())
        self._poll.begin()

    async def look(self) -> None:
        """Look at the source now, and begin what follows from it.

        Raises:
            SourceError: it cannot be looked at; all stays as it is.
            SettingError: its file cannot be followed; what it said before holds.
        """
        async with self._looking:
            try:
                found = await aside(f"looks for versions of {self.name}", self._source.look)
            except SourceError as error:
                self.problem = str(error)
                raise
            self._take_in(found)

    async def follow(self) -> None:
        """Look, and wait until all that follows is done: nobody is answered by what is not to answer any more.

        A version that cannot be loaded is not waited for. Raises what `look` raises.
        """
        await self.look()
        await self._settled()
        await self.lanes.left()

    async def load(self) -> None:
        """Hold what is to be held, where that waits to be asked for; as `follow`, and what failed is tried again."""
        self._is_loaded = True
        for entry in self.entries:
            self._lifecycle.try_again(entry.number)
        await self.follow()

    async def unload(self) -> None:
        """Hold nothing, where what is held waits to be asked for.

        Raises:
            SettingError: it does not.
        """
        if not self.is_explicit:
            raise SettingError(f'{self.name} follows its source; only with mode="explicit" can it be unloaded')
        self._is_loaded = False
        self._plan = dataclasses.replace(self._plan, is_loaded=False)
        self._apply()
        await self._settled()

    async def close(self) -> None:
        """Begin nothing more. What is under way on threads is left to them."""
        await self._agenda.close()

    def _take_in(self, found: Look) -> None:
        self._places = dict(found.places)
        self.problem = None
        before = self._plan
        try:
            self._plan = plan.make(self._spec, plan.read(found.file))
        except SettingError as error:
            self.problem = str(error)
            if self._is_starting:
                raise
        changed = {number for number, stamp in found.stamps.items() if self._stamps.get(number, stamp) != stamp}
        self._stamps = found.stamps
        for number in {*self._plan.also} - {*before.also} | changed:
            self._lifecycle.try_again(number)  # somebody waits for it, or has mended it
        self._apply((*found.warnings, *map(report.overwritten, sorted(changed & self._ready))))
        if not self._is_starting:
            self._poll.begin()
        if self.problem is not None:
            raise SettingError(self.problem)

    def _apply(self, warnings: tuple[str, ...] = ()) -> None:
        """Aspire what is to be held, and begin what follows."""
        choice = plan.aspired(dataclasses.replace(self._plan, is_loaded=self._is_to_hold), self._places)
        self._warn((*warnings, *choice.warnings))
        self._fallen_back = set() if choice.numbers & self._ready else self._fallen_back & self._places.keys()
        wanted = {number: self._places[number] for number in choice.numbers | self._fallen_back}
        if self._spec.keep_last and not self._places and self._ready:
            wanted = {number: place for number, place in self._lifecycle.wanted.items() if number == max(self._ready)}
        self._lifecycle.rule = RULES[self._plan.transition]
        self._lifecycle.aspire(wanted)
        self._go_on()

    def _go_on(self) -> None:
        """Begin what is to be done now, and lead calls to what can answer."""
        while True:
            may_load = self._is_starting or self._num_loading == 0
            action = self._lifecycle.next(self._clock(), may_load=may_load)
            if action is None:
                break
            if isinstance(action, Load):
                self._num_loading += 1
                self._lifecycle.move(action.number, Step.REQUESTED)
                self._agenda.begin(self._load(action.number))
            else:
                self._lifecycle.move(action.number, Step.QUIESCING)  # said before calls no longer get it
                self._ready.discard(action.number)
                self._agenda.begin(self._unload(action.number))
        self._lead()
        self._agenda.wake_at(self._lifecycle.next_try_at, self._go_on)
        self._agenda.note()

    def _lead(self) -> None:
        wanted = self._plan.labels
        followed = labels.follow(self.lanes.labels, wanted, self._ready)
        self.lanes.lead(followed, labels.default(wanted, followed, self._ready, self.lanes.default))

    def _fall_back(self) -> bool:
        """Where the newest cannot be loaded and nothing else is held, hold the next. False where there is none."""
        older = plan.older(self._plan, self._places, self._lifecycle.wanted)
        if older is None:
            return False
        logger.error("%s; version %d is tried instead", self.why_none(), older)
        self._fallen_back.add(older)
        self._apply()
        return True

    async def _load(self, number: int) -> None:
        entry = self._lifecycle.get(number)
        assert entry is not None
        try:
            await self._bringer.admit(
                entry, is_moving=lambda: self._lifecycle.is_moving(entry), change=self._agenda.change
            )
            if entry.step is Step.REQUESTED:  # and still aspired
                self._lifecycle.move(number, Step.LOADING)
                self._servables[number] = await self._bringer.bring(entry)
                self._ready.add(number)
                self.lanes.add(number, self._servables[number])
                self._lead()
                self._lifecycle.move(number, Step.READY)  # said once calls get it
        except Exception as error:
            self._failed(entry, error)
        finally:
            self._num_loading -= 1
        if self._fallen_back and number not in self._fallen_back:
            self._apply()
        else:
            self._go_on()

    def _failed(self, entry: Entry, error: Exception) -> None:
        if entry.step not in (Step.REQUESTED, Step.LOADING):
            return  # it was given up before
        self._bringer.release(entry.number)
        logger.error("version %d of %s is not served: %s", entry.number, self.name, named(error), exc_info=error)
        code = "RESOURCE_EXHAUSTED" if isinstance(error, NoRoom) else "UNKNOWN"
        self._lifecycle.failed(entry.number, named(error), self._clock(), code=code)

    async def _unload(self, number: int) -> None:
        lanes = self.lanes.remove(number)
        while lanes:
            await lanes.pop().emptied()
        self._lifecycle.move(number, Step.UNLOADING)
        await self._bringer.free(number, self._servables)
        self._lifecycle.move(number, Step.DISABLED)
        self._go_on()

    async def _settled(self) -> None:
        await self._agenda.until(lambda: self._lifecycle.is_settled)

    def _took_step(self, entry: Entry) -> None:
        self._on_step(entry)
        self._agenda.note()

    def _warn(self, warnings: tuple[str, ...]) -> None:
        for warning in warnings:
            if warning not in self._warned:  # once, not with each look
                logger.warning("%s: %s", self.name, warning)
        self._warned = frozenset(warnings)

    @property
    def _is_to_hold(self) -> bool:
        return not self.is_explicit or self._is_loaded or self._plan.is_loaded

    def why_none(self) -> str:
        """Return why calls that ask for no version get none."""
        if not self._is_to_hold:
            return f"no version of {self.name} is loaded, and none is until that is asked for"
        stable = self._plan.labels.get(labels.STABLE)
        return report.why_none(self.name, self.entries, stable=stable, where=self._source.title)
