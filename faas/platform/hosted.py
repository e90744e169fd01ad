"""One function on a platform: a control loop for each revision that is live or still drains, and its calls' way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from faas.platform import revisions as rules
from faas.platform.breaker import Capacity
from faas.platform.demand import Counts
from faas.platform.logs import LogFile
from faas.platform.loop import ScalingLoop
from faas.platform.revisions import Deployment, Revisions
from faas.preparation import Preparation


class _Running:
    """A control loop that runs, and its end once it has begun."""

    def __init__(self, loop: ScalingLoop) -> None:
        self.loop = loop
        self.leaving: asyncio.Task[None] | None = None
        self.task: asyncio.Task[None]
        self.resume()

    def resume(self) -> None:
        """Let it start instances."""
        self.task = asyncio.ensure_future(self.loop.run())

    def come_back(self) -> None:
        """Go on, though its end had begun."""
        if self.leaving is not None:
            self.leaving.cancel()
            self.leaving = None
            self.task.cancel()
            self.resume()

    def cancel(self) -> None:
        """Start nothing any more, and end nothing."""
        self.task.cancel()
        if self.leaving is not None:
            self.leaving.cancel()


class Hosted:
    """A function and what runs of it. Made on a running loop.

    `make` gives the control loop of a revision; `on_left` is told when one has drained, and its zygote may go.
    """

    def __init__(
        self,
        name: str,
        log: LogFile,
        *,
        make: Callable[[Preparation], ScalingLoop],
        on_left: Callable[[Preparation], object],
    ) -> None:
        self.name = name
        self.log = log
        self.revisions = Revisions(name=name)
        self.failure: str | None = None
        """Why its code as it is now could not be made a revision; what is told of it where it has none."""
        self.past = Counts()
        """What became of the calls of revisions that run no more."""
        self.num_past_starts = 0
        self._make = make
        self._on_left = on_left
        self._running: dict[str, _Running] = {}
        self._percents: list[int] = []
        self._capacities: list[Capacity] = []
        self._tagged: dict[str, Capacity] = {}
        self._num_calls = 0

    # The way of calls: at once, for each request.

    def next(self) -> Capacity | None:
        """Return the instances that the next call goes to, by the shares; None where no revision has any."""
        if len(self._capacities) == 1:
            return self._capacities[0]
        if not self._capacities:
            return None
        self._num_calls += 1
        return self._capacities[rules.choose(self._percents, self._num_calls)]

    def tagged(self, tag: str) -> Capacity | None:
        """Return the instances that a tag leads to."""
        return self._tagged.get(tag)

    # What runs.

    @property
    def python_name(self) -> str | None:
        """The name that it has in its module."""
        latest = self.revisions.latest
        return latest.preparation.python_name if latest is not None else None

    @property
    def loops(self) -> list[ScalingLoop]:
        """The control loops of all revisions that run, those that drain among them."""
        return [running.loop for running in self._running.values()]

    @property
    def num_ready(self) -> int:
        """Instances of all revisions that take calls."""
        return sum(loop.num_ready for loop in self.loops)

    @property
    def main(self) -> Deployment | None:
        """The revision that stands for the function where one must: that with the largest share, else the latest."""
        percents = {share.revision: share.percent for share in self.revisions.traffic}
        if not percents:
            return self.revisions.latest
        return self.revisions.find(max(percents, key=lambda revision: percents[revision]))

    def loop_of(self, revision: str) -> ScalingLoop | None:
        """Return the control loop of a revision that runs and does not drain."""
        running = self._running.get(revision)
        return None if running is None or running.leaving is not None else running.loop

    def drains(self, revision: str) -> bool:
        """Tell whether a revision runs for the calls alone that it has already."""
        running = self._running.get(revision)
        return running is not None and running.leaving is not None

    def start(self, deployment: Deployment) -> ScalingLoop:
        """Run a revision, which gets no calls by this; one that drains stays instead."""
        running = self._running.get(deployment.id)
        if running is None:
            running = self._running[deployment.id] = _Running(self._make(deployment.preparation))
        running.come_back()
        return running.loop

    def adopt(self, revisions: Revisions) -> None:
        """Send calls as `revisions` says from now on. What is live there runs; what runs and is not live drains."""
        self.revisions = revisions
        live = {one.id: self.start(one).capacity for one in revisions.live}
        self._percents = [share.percent for share in revisions.traffic]
        self._capacities = [live[share.revision] for share in revisions.traffic]
        self._tagged = {tag: live[revision] for tag, revision in revisions.tags.items()}
        for revision, running in self._running.items():
            if revision not in live and running.leaving is None:
                running.leaving = asyncio.ensure_future(self._drain(revision, running))

    async def gone(self) -> None:
        """Wait until all that drains now has ended."""
        leaving = [running.leaving for running in self._running.values() if running.leaving is not None]
        if leaving:
            await asyncio.wait(leaving)

    async def stop(self, grace_s: float) -> None:
        """Start nothing any more, and end every instance, each with a grace period for the calls that it has."""
        self.cancel()
        await asyncio.gather(*(loop.stop(grace_s) for loop in self.loops))

    def cancel(self) -> None:
        """Let go of everything at once: the platform ends, and its pool ends the processes."""
        for running in self._running.values():
            running.cancel()

    async def _drain(self, revision: str, running: _Running) -> None:
        """Let the calls that a revision has end, then its instances.

        Calls end by their own time-outs; what outlives even those (a stream that nobody ends) is cut.
        """
        loop = running.loop
        grace_s = loop.preparation.description.grace_period_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(loop.capacity.hold_s + grace_s):
                await loop.quiet()
        running.task.cancel()  # it would replace what ends
        await loop.stop(grace_s)
        del self._running[revision]
        self._remember(loop)
        self._on_left(loop.preparation)

    def _remember(self, loop: ScalingLoop) -> None:
        counts = loop.capacity.counts
        for name in Counts.__slots__:
            setattr(self.past, name, getattr(self.past, name) + getattr(counts, name))
        self.num_past_starts += loop.starts.num_ordered
