"""The functions of a platform while it runs: brought back, deployed, shared out, rolled back, scaled, deleted.

Every change goes the same way: what it needs is started and, where calls are served already, has proved that it gets
ready; then it is remembered on the disk; then, at once, calls go the new way; then what gets no calls any more drains.
A change that fails before it is remembered leaves everything as it was.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from faas import names
from faas.errors import PlatformError
from faas.platform import revisions as rules
from faas.platform.control import UnknownFunction
from faas.platform.hosted import Hosted
from faas.platform.kept import Kept
from faas.platform.logs import LogFile
from faas.platform.loop import ScalingLoop
from faas.platform.registry import Registry
from faas.platform.revisions import PERCENT, Revisions
from faas.platform.state import State
from faas.platform.upkeep import Upkeep
from faas.platform.workplace import Progress, Workplace
from faas.preparation import Preparation
from warmpool.errors import WarmpoolError


class Functions:
    """Holds every function of a platform, and changes it. Made on a running loop."""

    def __init__(self, workplace: Workplace) -> None:
        home = workplace.settings.home / "platform"
        self.registry = Registry()
        self._workplace = workplace
        self._state = State(home)
        self.kept = Kept(home)
        self._upkeep = Upkeep(workplace, self.registry, self._state, lambda: self.loops)
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._dismissed: dict[asyncio.Task[None], Hosted] = {}

    def __iter__(self) -> Iterator[Hosted]:
        return iter(self.registry)

    def get(self, name: str) -> Hosted:
        """Return a function. Raises UnknownFunction."""
        hosted = self.registry.get(name)
        if hosted is None:
            known = sorted(one.name for one in self.registry)
            near = names.suggestion(name, known)
            raise UnknownFunction(
                f"no function {name!r} here{near}; `faas list` names those there are: {', '.join(known) or 'none'}"
            )
        return hosted

    async def restore(self) -> list[str]:
        """Bring back what was deployed when the platform ran last; what cannot be is named and left out.

        Returns the targets of functions that have no revision left and whose code is still as it was deployed: they can
        be made ready anew, for the Python and the packages of now.
        """
        is_all_read, again = True, []
        for found in self._state.read():
            if isinstance(found, str):
                self._workplace.progress(found)
                is_all_read = False
                continue
            gone = {one.id: self.kept.missing(one.preparation) for one in found.deployments}
            for revision, why in gone.items():
                if why is not None:
                    self._workplace.progress(f"{found.name}: revision {revision} is left out: {why}")
            usable = rules.without(found, [revision for revision, why in gone.items() if why is not None])
            if usable.deployments:
                self._host(found.name).revisions = usable
            elif found.latest is not None and found.bundle is None and found.latest.preparation.origin.is_there():
                again.append(found.latest.preparation.description.target)
        if is_all_read:
            self._tidy()
        return again

    def begin(self) -> None:
        """Run what has been brought back and added so far: its calls are taken, and wait for its zygotes."""
        self._upkeep.begin()
        for hosted in self:
            if hosted.revisions.deployments:
                self._state.write(hosted.revisions)
                hosted.adopt(hosted.revisions)
        self._upkeep.memory.changed()
        self.registry.index()

    async def warm(self) -> None:
        """Return when what runs has its zygotes; a revision that cannot have one is reported with the reason."""
        await self._upkeep.zygotes.warm_all()

    def add(self, preparation: Preparation, *, bundle: str | None = None) -> None:
        """Take a function as its code is now, before the platform serves: a new revision gets all calls."""
        hosted = self._host(preparation.name)
        found = msgspec.structs.replace(hosted.revisions, bundle=bundle)
        if found.find(preparation.revision) is None:
            kept = self.kept.keep(preparation)
            found = rules.share(rules.deploy(found, kept, time.time()), {kept.revision: PERCENT})
        hosted.revisions, hosted.failure = rules.trimmed(found), None

    def fail(self, name: str, why: str, *, bundle: str | None = None) -> None:
        """Say of a function that its code as it is now cannot be served; an earlier revision of it goes on."""
        hosted = self._host(name)
        hosted.failure = why
        if not hosted.revisions.deployments:
            hosted.revisions = Revisions(name=name, bundle=bundle)

    async def deploy(
        self,
        preparation: Preparation,
        progress: Progress,
        *,
        takes_traffic: bool = True,
        tag: str | None = None,
        bundle: str | None = None,
    ) -> Hosted:
        """Add a revision while calls are served. It takes all calls over once it is ready, unless told otherwise.

        Raises:
            PlatformError: it does not get ready, or cannot be kept; the revisions before go on as they were.
        """
        async with self._changing[preparation.name]:
            is_new = self.registry.get(preparation.name) is None
            kept = self.kept.keep(preparation)
            hosted = self._host(preparation.name)
            try:
                after = msgspec.structs.replace(hosted.revisions, bundle=bundle)
                after = rules.deploy(after, kept, time.time())
                if takes_traffic:
                    after = rules.share(after, {kept.revision: PERCENT})
                if tag is not None:
                    after = rules.tag(after, {tag: kept.revision})
                await self._change(
                    hosted, rules.trimmed(after), prove=bool(hosted.revisions.traffic), progress=progress
                )
            except BaseException:
                if is_new:
                    self._dismiss(hosted)
                raise
            hosted.failure = None
            return hosted

    async def share(self, name: str, percents: Mapping[str, int], tags: Mapping[str, str | None]) -> Hosted:
        """Share a function's calls by percents and set its tags; revisions are named as `revisions.resolve` has it.

        Raises:
            PlatformError: there is no such revision, the percents do not add up, or one does not get ready.
        """
        self.get(name)
        async with self._changing[name]:
            hosted = self.get(name)
            after = found = hosted.revisions
            if percents:
                resolved = [(rules.resolve(found, text), percent) for text, percent in percents.items()]
                if len({revision for revision, _ in resolved}) < len(resolved):
                    raise PlatformError("the same revision is given two shares")
                after = rules.share(after, dict(resolved))
            after = rules.tag(after, {t: None if to is None else rules.resolve(found, to) for t, to in tags.items()})
            await self._change(hosted, after, prove=hosted.num_ready > 0)
            return hosted

    async def roll_back(self, name: str, to: str | None) -> Hosted:
        """Give all calls to the revision before, or to the one named. Raises PlatformError."""
        self.get(name)
        async with self._changing[name]:
            hosted = self.get(name)
            found = hosted.revisions
            after = rules.roll_back(found, None if to is None else rules.resolve(found, to))
            await self._change(hosted, after, prove=hosted.num_ready > 0)
            return hosted

    async def delete(self, name: str) -> None:
        """Take a function away: new calls find nothing, those that it has are answered. Returns when it is gone."""
        self.get(name)
        async with self._changing[name]:
            hosted = self.get(name)
            self._state.remove(name)
            gone = self._dismiss(hosted)
            self._upkeep.habits.forget(name)
        await asyncio.wait((gone,))
        self._tidy()

    async def scale(self, name: str, num_instances: int) -> str | None:
        """Bring a function to a number of instances of its main revision; 0 drains those of all.

        Returns once those that had to go are gone and the others are ready, or why not all of them are.
        """
        hosted = self.get(name)
        main = hosted.main
        loop = hosted.loop_of(main.id) if main is not None else None
        if num_instances == 0:
            await asyncio.gather(*(one.scale(0) for one in hosted.loops))
        elif loop is not None:
            await loop.scale(num_instances)
            return await loop.reach(min(num_instances, loop.preparation.description.max_instances))
        return None

    async def stop(self, grace_s: float) -> None:
        """Start nothing any more, and end every instance with a grace period."""
        self._upkeep.settle()
        await asyncio.gather(*(hosted.stop(grace_s) for hosted in self._all))
        for hosted in self:
            hosted.log.close()

    def cancel(self) -> None:
        """Let go of everything at once."""
        self._upkeep.cancel()
        for hosted in self._all:
            hosted.cancel()

    @property
    def can_serve(self) -> bool:
        """Whether there is a revision of any function."""
        return any(hosted.revisions.deployments for hosted in self)

    @property
    def loops(self) -> list[ScalingLoop]:
        """The control loops of everything that runs, also of functions that are deleted and drain."""
        return [loop for hosted in self._all for loop in hosted.loops]

    @property
    def grace_s(self) -> float:
        """The longest grace period of all that runs."""
        return max((loop.preparation.description.grace_period_s for loop in self.loops), default=0.0)

    async def _change(self, hosted: Hosted, after: Revisions, *, prove: bool, progress: Progress | None = None) -> None:
        """Have a function be as `after` says; see the module."""
        progress = progress or self._workplace.progress
        before = hosted.revisions
        num_ready = hosted.num_ready
        fresh = [one for one in after.live if hosted.loop_of(one.id) is None]
        try:
            for deployment in fresh:
                loop = hosted.start(deployment)
                progress(f"starting the zygote of {hosted.name}")
                await self._upkeep.zygotes.warm(loop.preparation)
                percent = after.percent(deployment.id)
                if prove and percent:
                    progress(f"starting revision {deployment.id} of {hosted.name}")
                    await _prove(loop, math.ceil(num_ready * percent / PERCENT))
            self._state.write(after)
        except BaseException as error:
            hosted.adopt(before)
            if isinstance(error, WarmpoolError):
                raise PlatformError(f"{hosted.name} cannot be started: {error}") from error
            raise
        hosted.adopt(after)
        self._upkeep.memory.changed()
        self.registry.index()

    def _host(self, name: str) -> Hosted:
        """Return a function, a new one where there is none of that name."""
        hosted = self.registry.get(name)
        if hosted is None:
            log = LogFile(self._workplace.settings.logs, name)
            upkeep = self._upkeep
            hosted = Hosted(name, log, make=lambda p: upkeep.loop(p, log), on_left=upkeep.zygotes.release)
            self.registry.add(hosted)
        return hosted

    def _dismiss(self, hosted: Hosted) -> asyncio.Task[None]:
        """Send a function no more calls; return the task that is done when those it has are answered."""
        self.registry.remove(hosted.name)
        hosted.adopt(Revisions(name=hosted.name))
        gone = asyncio.ensure_future(hosted.gone())
        self._dismissed[gone] = hosted
        gone.add_done_callback(lambda _: hosted.log.close())
        gone.add_done_callback(self._dismissed.pop)
        return gone

    @property
    def _all(self) -> list[Hosted]:
        return [*self.registry, *self._dismissed.values()]

    def _tidy(self) -> None:
        """Remove what no revision runs from any more."""
        remembered = [one.preparation for hosted in self for one in hosted.revisions.deployments]
        self.kept.keep_only([*remembered, *(loop.preparation for loop in self.loops)])


async def _prove(loop: ScalingLoop, num_instances: int) -> None:
    """Raises PlatformError where no instance gets ready."""
    description = loop.preparation.description
    wanted = min(max(1, num_instances), description.max_instances)
    failure = await loop.prove(wanted)
    if failure is not None:
        what = f"revision {loop.preparation.revision} of {description.name}"
        raise PlatformError(f"{what} does not get ready, and gets no calls: {failure}")
