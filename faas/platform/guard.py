"""Looks at what instances take of the machine, and holds them to their limits (`limits`)."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from faas.clock import Clock, monotonic
from faas.platform import limits
from faas.platform.limits import Life, Usage, Verdict

LOOK_EVERY_S = 0.25
"""No event tells that a process has grown; while there is no instance nothing is measured."""
OOM_SCORE = 500
"""Of a machine that is out of memory, the kernel ends an instance before the platform or a zygote."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Guarded(Protocol):
    """An instance, as the guard sees it."""

    def life(self, now: float) -> Life | None:
        """Return its life so far; None until it is ready."""

    def end(self, why: str) -> None:
        """It is over its memory: end it at once."""

    def renew(self, why: str) -> None:
        """It has grown: let another take its place. Called once."""


@dataclass(eq=False)
class _Watched:
    pid: int
    guarded: Guarded
    memory_bytes: int
    cpu: float
    usage: Usage
    ready_bytes: int | None = None
    before_bytes: int = 0
    looked_at: float = -math.inf
    is_looked_at: bool = False
    is_renewed: bool = False
    is_held: bool = False


class Guard:
    """Guards any number of processes, with one timer. Made on a running loop."""

    def __init__(self, clock: Clock = monotonic, *, look_every_s: float = LOOK_EVERY_S) -> None:
        self._clock = clock
        self._look_every_s = look_every_s
        self._watched: set[_Watched] = set()
        self._held: dict[_Watched, tuple[int, ...]] = {}
        self._looks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def guarding(self, pid: int, guarded: Guarded, *, memory_bytes: int, cpu: float) -> Iterator[None]:
        """Hold a process to its limits while the block runs."""
        _give_up_first(pid)
        watched = _Watched(pid, guarded, memory_bytes, cpu, Usage(cpu, _cpu_s(pid) or 0.0, self._clock()))
        self._watched.add(watched)
        self._arm()
        try:
            yield
        finally:
            self._watched.discard(watched)
            self._held.pop(watched, None)

    def _arm(self) -> None:
        if self._timer is None and self._watched:
            self._timer = asyncio.get_running_loop().call_later(self._look_every_s, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock()
        for watched in self._watched:
            self._look_at_memory(watched, now)
            if not watched.is_held and watched.usage.is_due(now):
                self._look_at_cpu(watched, now)
        self._arm()

    def _look_at_memory(self, watched: _Watched, now: float) -> None:
        anonymous_bytes = _read(watched.pid, "statm", lambda statm: limits.anonymous(statm, _PAGE_BYTES))
        if anonymous_bytes is None or watched.is_looked_at:
            return
        if limits.is_low(anonymous_bytes, watched.memory_bytes):
            if watched.ready_bytes is None and watched.guarded.life(now) is not None:
                watched.ready_bytes = 0  # or so little that it makes no difference
            return
        since_s, before_bytes = now - watched.looked_at, watched.before_bytes
        if limits.is_due(anonymous_bytes, watched.memory_bytes, before_bytes=before_bytes, looked_s=since_s):
            watched.looked_at, watched.before_bytes, watched.is_looked_at = now, anonymous_bytes, True
            look = asyncio.ensure_future(self._look_closely(watched))
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)

    async def _look_closely(self, watched: _Watched) -> None:
        """Look at what a process holds alone, in a thread, since it takes the kernel milliseconds; then act."""
        own_bytes = await asyncio.to_thread(_read, watched.pid, "smaps_rollup", limits.own)
        watched.is_looked_at = False
        if own_bytes is None or watched not in self._watched:
            return
        life = watched.guarded.life(self._clock())
        if life is not None and watched.ready_bytes is None:
            watched.ready_bytes = own_bytes
        match limits.judge(own_bytes, watched.memory_bytes, ready_bytes=watched.ready_bytes or 0, life=life):
            case Verdict.END:
                watched.guarded.end(limits.over_memory(own_bytes, watched.memory_bytes))
            case Verdict.RENEW if not watched.is_renewed:
                watched.is_renewed = True
                watched.guarded.renew(limits.grown(own_bytes, watched.memory_bytes))

    def _look_at_cpu(self, watched: _Watched, now: float) -> None:
        used_s = _cpu_s(watched.pid)
        if used_s is None or not watched.usage.is_over(used_s, now):
            return
        watched.is_held = True
        processors = limits.held_to(watched.cpu, os.sched_getaffinity(0), self._held.values())
        if processors is not None:
            self._held[watched] = processors
            _hold(watched.pid, processors)


def raise_descriptors() -> int:
    """Let this process have as many open files as it may, and return how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # a system may say that there is no limit, and have one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _read(pid: int, name: str, parse: Callable[[bytes], int]) -> int | None:
    """Return what a file of a process says; None where it has ended."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return parse(file.readall())
    except OSError:
        return None


def _cpu_s(pid: int) -> float | None:
    ticks = _read(pid, "stat", lambda stat: sum(map(int, stat.rpartition(b")")[2].split()[11:13])))
    return None if ticks is None else ticks / _TICKS_PER_S


def _hold(pid: int, processors: tuple[int, ...]) -> None:
    """Hold all threads of a process to some processors; those that it starts later inherit that."""
    seen: set[str] = set()
    with contextlib.suppress(OSError):
        while new := set(os.listdir(f"/proc/{pid}/task")) - seen:
            for thread in new:
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(thread), processors)
            seen |= new


def _give_up_first(pid: int) -> None:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as score:
        score.write(str(OOM_SCORE))
