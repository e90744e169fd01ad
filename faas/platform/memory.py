"""The memory of a platform: measured now and then, and kept within a budget by ending what is idle (`budget`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from faas.platform import budget, forking
from faas.platform.budget import Holdings
from faas.platform.eviction import GreedyDual, Idler
from faas.platform.instances import Instance, State
from faas.platform.loop import ScalingLoop
from warmpool import memory
from warmpool.environment import Environment
from warmpool.memory import Memory
from warmpool.pool import Held

SETTLE_S = 1.0
"""How long after a start to measure: the instance has then answered its first call, and holds what that takes."""
LOOK_EVERY_S = 30.0
"""How often to measure while something runs and nothing starts."""
MAX_MEASURING_SHARE = 0.02
"""The share of the time that measuring everything may take: the kernel walks all pages, 400 processes take a second."""

_CGROUP = "/sys/fs/cgroup"
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")


class Zygotes(Protocol):
    """The pool, as far as its memory goes; see `warmpool.pool.WarmPool`."""

    async def sizes(self) -> list[Held]:
        """Return what is held for each environment."""
        ...

    async def let_go(self, environment: Environment) -> bool:
        """End an idle zygote."""
        ...


@dataclass(frozen=True)
class _Candidate:
    """Something idle, and how to end it."""

    idler: Idler
    let_go: Callable[[], object]


class MemoryKeeper:
    """Holds what `loops` run, and the zygotes, to `budget_bytes`. Made on a running loop; `run` it there."""

    def __init__(
        self,
        budget_bytes: int,
        zygotes: Zygotes,
        loops: Callable[[], Iterable[ScalingLoop]],
        *,
        read: Callable[[int], Memory] = memory.read,
    ) -> None:
        self.budget_bytes = budget_bytes
        self._pool = zygotes
        self._loops = loops
        self._read = read
        self._zygotes: dict[Environment, Held] = {}
        self._zygote_bytes: dict[Environment, int] = {}  # also of those that were let go
        self._seen: dict[Instance, Memory] = {}
        self._most_alone: dict[str, int] = {}  # by revision
        self._own_bytes = 0
        self._dual = GreedyDual()
        self._num_calls: dict[str, int] = {}
        self._any_started = asyncio.Event()
        self._to_look_soon = asyncio.Event()
        self._stranger_started = asyncio.Event()
        self._letting_go: set[asyncio.Task[bool]] = set()

    @property
    def holdings(self) -> Holdings:
        """What is held now, as far as it has been looked at, and as it is estimated beyond."""
        living = [(loop, made) for loop in self._loops() for made in loop.instances if _holds(loop, made)]
        held_bytes = self._own_bytes + sum(held.memory.pss_bytes for held in self._zygotes.values())
        for loop, made in living:
            seen = self._seen.get(made)
            held_bytes += seen.pss_bytes if seen is not None else self._alone(loop)
        return Holdings(
            budget_bytes=self.budget_bytes,
            held_bytes=held_bytes,
            num_instances=len(living),
            num_zygotes=len(self._zygotes),
        )

    def admit(self, asking: ScalingLoop) -> str | None:
        """Make room for another instance by ending what is idle, if need be; return why there is none, or None."""
        holdings = self.holdings
        most_bytes = holdings.held_bytes + self._alone(asking) + max(self._zygote_bytes.values(), default=0)
        self._any_started.set()
        if asking.revision not in self._most_alone:
            self._stranger_started.set()
        if most_bytes > holdings.budget_bytes / 2:
            self._to_look_soon.set()
        if most_bytes <= holdings.budget_bytes:  # the usual case, and a wake-up waits for this
            return None
        needed_bytes = self._needed(asking)
        candidates = self._candidates(asking)
        idlers = {name: candidate.idler for name, candidate in candidates.items()}
        going, self._dual = budget.make_room(holdings, needed_bytes, idlers, self._dual)
        if going is None:
            idle_bytes = sum(idler.num_bytes for idler in idlers.values())
            return budget.refusal(asking.preparation.name, holdings, needed_bytes, idle_bytes)
        for name in going:
            candidates[name].let_go()
        return None

    def changed(self) -> None:
        """Measure again soon: something has started."""
        self._any_started.set()
        self._to_look_soon.set()

    async def run(self) -> None:
        """Measure, and end what is idle while too much is held, until cancelled."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._meet_strangers())
            both.create_task(self._look_now_and_then())

    async def _meet_strangers(self) -> None:
        """Measure the first instances of each revision as soon as they have answered.

        What one takes alone is guessed until then, and the guesses add up to far too much when many functions are woken
        before everything is measured again: some would end for want of room that there is.
        """
        while True:
            await self._stranger_started.wait()
            await asyncio.sleep(SETTLE_S)
            strangers = [loop for loop in self._loops() if loop.instances and loop.revision not in self._most_alone]
            if not strangers:
                self._stranger_started.clear()
            answered = [(loop, made) for loop in strangers for made in loop.instances if _has_answered(loop, made)]
            found = await self._measure([made.pid or 0 for _, made in answered])
            self._seen |= self._note(answered, found)

    async def _look_now_and_then(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_at = loop.time()
            await self.look()
            took_s = loop.time() - began_at
            if not any(one.instances for one in self._loops()):
                await self._any_started.wait()
                self._any_started.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(LOOK_EVERY_S, took_s / MAX_MEASURING_SHARE)):
                    await self._to_look_soon.wait()
            self._to_look_soon.clear()
            await asyncio.sleep(max(SETTLE_S, took_s / MAX_MEASURING_SHARE))

    async def look(self) -> None:
        """Measure what everything holds, and end what is idle while that is more than the budget."""
        living = [(loop, made) for loop in self._loops() for made in loop.instances if made.pid is not None]
        self._zygotes = {held.environment: held for held in await self._pool.sizes()}
        self._zygote_bytes |= {environment: held.memory.pss_bytes for environment, held in self._zygotes.items()}
        own, *found = await self._measure([os.getpid(), *(made.pid or 0 for _, made in living)])
        self._own_bytes = own.pss_bytes
        self._seen = self._note(living, found)
        self._forget_what_is_gone()
        candidates = self._candidates(None)
        self._dual = self._dual.forgotten(self._dual.used_at.keys() - candidates.keys())
        holdings = self.holdings
        over_bytes = max(0, holdings.held_bytes - holdings.budget_bytes)
        going, self._dual = self._dual.evict({name: one.idler for name, one in candidates.items()}, over_bytes)
        for name in going:
            candidates[name].let_go()

    async def _measure(self, pids: Sequence[int]) -> list[Memory]:
        return await asyncio.to_thread(lambda: [self._read(pid) for pid in pids])

    def _note(
        self, measured: Sequence[tuple[ScalingLoop, Instance]], found: Sequence[Memory]
    ) -> dict[Instance, Memory]:
        """Remember the most that one of each revision takes alone; return what was found of those that still serve."""
        seen = {}
        for (loop, made), size in zip(measured, found, strict=True):
            if made.state is State.READY and size.pss_bytes:
                seen[made] = size
                self._most_alone[loop.revision] = max(size.private_bytes, self._most_alone.get(loop.revision, 0))
        return seen

    def _forget_what_is_gone(self) -> None:
        """Keep no sizes of revisions that run no more."""
        loops = list(self._loops())
        revisions = {loop.revision for loop in loops}
        environments = self._zygotes.keys() | {forking.environment(loop.preparation) for loop in loops}
        self._most_alone = {name: size for name, size in self._most_alone.items() if name in revisions}
        self._zygote_bytes = {one: size for one, size in self._zygote_bytes.items() if one in environments}

    def _needed(self, loop: ScalingLoop) -> int:
        """What another instance takes, and the zygote that it is forked from where that was let go."""
        environment = forking.environment(loop.preparation)
        is_there = environment in self._zygotes
        return self._alone(loop) + (0 if is_there else self._zygote_bytes.get(environment, 0))

    def _alone(self, loop: ScalingLoop) -> int:
        return budget.needed(loop.preparation.state_bytes, self._most_alone.get(loop.revision))

    def _candidates(self, asking: ScalingLoop | None) -> dict[str, _Candidate]:
        """Return what is idle, each by a name that stays the same.

        For a further instance of a function none goes of one that has calls now: they would only take turns.
        """
        is_first = asking is None or not any(made.serves for made in asking.instances)
        found: dict[str, _Candidate] = {}
        for loop in self._loops():
            if loop is not asking and (is_first or not loop.capacity.concurrency.current):
                found.update(self._idle_instances(loop))
        found.update(self._idle_zygotes(asking))
        for name, candidate in found.items():
            if self._num_calls.get(name) != candidate.idler.num_calls:
                self._dual = self._dual.used(name)
        self._num_calls = {name: candidate.idler.num_calls for name, candidate in found.items()}
        return found

    def _idle_instances(self, loop: ScalingLoop) -> Iterator[tuple[str, _Candidate]]:
        for made in loop.idle:
            seen, endpoint = self._seen.get(made), loop.endpoint_of(made)
            if endpoint is not None and made.ready_at is not None:
                alone_bytes = seen.private_bytes if seen is not None else self._alone(loop)
                idler = Idler(endpoint.num_answered, made.ready_at - made.ordered_at, alone_bytes)
                yield made.id, _Candidate(idler, partial(loop.evict, made))

    def _idle_zygotes(self, asking: ScalingLoop | None) -> Iterator[tuple[str, _Candidate]]:
        needed = forking.environment(asking.preparation) if asking is not None else None
        needed_ones = () if needed is None else (needed, needed.base)
        num_calls: Counter[Environment] = Counter()
        for loop in self._loops():
            num_calls[forking.environment(loop.preparation)] += loop.capacity.counts.requests
        for environment, held in self._zygotes.items():
            if not (held.num_workers or held.num_heirs or environment in needed_ones):
                idler = Idler(num_calls[environment], held.start_s, held.memory.private_bytes)
                yield f"zygote {hash(environment):x}", _Candidate(idler, partial(self._let_go, environment))

    def _let_go(self, environment: Environment) -> None:
        self._zygotes.pop(environment, None)
        task = asyncio.ensure_future(self._pool.let_go(environment))
        self._letting_go.add(task)
        task.add_done_callback(self._letting_go.discard)


def _has_answered(loop: ScalingLoop, made: Instance) -> bool:
    endpoint = loop.endpoint_of(made)
    return endpoint is not None and endpoint.num_answered > 0


def _holds(loop: ScalingLoop, made: Instance) -> bool:
    """Whether an instance is to be counted: one that was told to end and has no more calls is as good as gone."""
    endpoint = loop.endpoint_of(made)
    return made.serves or (endpoint is not None and endpoint.in_flight > 0)


def read_default_budget() -> int:
    """Return the budget of a platform that was given none."""
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return budget.default_budget(machine_bytes, _group_limit())


def _group_limit(mount: str = _CGROUP) -> int | None:
    """Return the limit of the control group that a container sees as the topmost; None where there is none."""
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError), open(os.path.join(mount, name)) as file:
            return int(file.read())
    return None
