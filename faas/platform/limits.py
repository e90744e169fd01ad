"""What an instance may take of the machine, decided from what it was seen to take. Pure; `guard` looks and acts.

Memory is what an instance holds alone. Pages that it shares with the zygote it came from, and the weights that it maps,
are not its own; no limit of the kernel's leaves both out (RLIMIT_AS and RLIMIT_DATA count what is mapped, and a control
group charges a shared page to whoever touched it first), so it is looked at, several times a second.

Processors: an instance that keeps to its share runs wherever there is room. One that does not is held to as many whole
processors as its share needs, those with the fewest others that are held to them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

RENEW_AT = 0.8
"""The part of its room for growth, from what it held when it was ready up to its limit, at which one is renewed."""
LIFE_OVER_START = 5.0
"""No instance is renewed before it has served for that many times its start took, or some would only ever start."""
CLOSELY_EVERY_S = 1.0
CPU_SLACK = 1.1
"""Ticks are coarse: this much over its share is no trespass."""
CPU_OVER_S = 1.0
"""For how long an instance may use more than its share: starts and single calls come in bursts."""
DESCRIPTORS_KEPT = 8
"""One descriptor in that many is kept from clients, for instances, logs and files."""
MAX_KEPT = 1024

_MIB = 2**20


class Verdict(Enum):
    """What becomes of an instance by its memory."""

    FINE = "fine"
    RENEW = "renew"
    """It has grown, and another takes its place between two calls."""
    END = "end"


@dataclass(frozen=True)
class Life:
    """How long the start of an instance took, and for how long it has been ready."""

    start_s: float
    served_s: float


def judge(own_bytes: int, limit_bytes: int, *, ready_bytes: int, life: Life | None) -> Verdict:
    """Return what becomes of an instance that holds `own_bytes` alone.

    `life` is None until it is ready; `ready_bytes` is what it held then.
    """
    if own_bytes > limit_bytes:
        return Verdict.END
    if life is None or own_bytes < renewed_at(ready_bytes, limit_bytes):
        return Verdict.FINE
    return Verdict.RENEW if life.served_s >= LIFE_OVER_START * life.start_s else Verdict.FINE


def renewed_at(ready_bytes: int, limit_bytes: int) -> float:
    """Return the high-water mark of an instance; none needs to know what it held when it was ready if that is low."""
    low = RENEW_AT * limit_bytes
    return low if ready_bytes < low else ready_bytes + RENEW_AT * (limit_bytes - ready_bytes)


def is_low(anonymous_bytes: int, limit_bytes: int) -> bool:
    """Tell whether a process is below every mark: it holds alone at most its anonymous memory, or little more."""
    return anonymous_bytes < RENEW_AT * limit_bytes


def is_due(anonymous_bytes: int, limit_bytes: int, *, before_bytes: int, looked_s: float) -> bool:
    """Tell whether to look closely at one that is not low. The kernel walks all its pages for that.

    So not within `CLOSELY_EVERY_S` seconds of the last such look, `looked_s` ago, unless it has grown from what its
    anonymous memory was then, `before_bytes`.
    """
    return looked_s >= CLOSELY_EVERY_S or anonymous_bytes - before_bytes > (1 - RENEW_AT) / 4 * limit_bytes


def over_memory(own_bytes: int, limit_bytes: int) -> str:
    """Return why an instance was ended, for its log and its callers."""
    return (
        f"the instance was ended: it held {own_bytes / _MIB:.0f} MiB of memory of its own, and Resources(memory=...) "
        f"allows {limit_bytes / _MIB:.0f} MiB; raise it, or have a call take less"
    )


def grown(own_bytes: int, limit_bytes: int) -> str:
    """Return why an instance was renewed, for its log."""
    return (
        f"the instance is renewed: it has grown to {own_bytes / _MIB:.0f} MiB of the {limit_bytes / _MIB:.0f} MiB that "
        "Resources(memory=...) allows"
    )


def anonymous(statm: bytes, page_bytes: int) -> int:
    """Return the memory of a process that is no file's, from the text of /proc/PID/statm: cheap to read.

    What it shares with the zygote that it was forked from is in it.
    """
    _, resident, filed, *_ = map(int, statm.split())
    return (resident - filed) * page_bytes


def own(rollup: bytes) -> int:
    """Return what a process holds alone, from the text of /proc/PID/smaps_rollup.

    What it maps of files, and has not written to, is not in it.
    """
    rows = (line.partition(b":") for line in rollup.splitlines())
    return sum(int(rest.split()[0]) for name, _, rest in rows if name in (b"Private_Dirty", b"SwapPss")) * 1024


class Usage:
    """The CPU time of one process, looked at again and again, against its share of processors."""

    def __init__(self, share: float, cpu_s: float, now: float) -> None:
        self._share = share
        self._cpu_s = cpu_s
        self._since = now

    def is_due(self, now: float) -> bool:
        """Tell whether it is time to look."""
        return now - self._since >= CPU_OVER_S

    def is_over(self, cpu_s: float, now: float) -> bool:
        """Take a look in, `cpu_s` since its start; tell whether it has had more than its share since the last one."""
        elapsed_s, used_s = now - self._since, cpu_s - self._cpu_s
        self._cpu_s, self._since = cpu_s, now
        return used_s > self._share * elapsed_s * CPU_SLACK


def held_to(share: float, processors: Iterable[int], held: Iterable[Collection[int]]) -> tuple[int, ...] | None:
    """Return the processors that an instance is held to; None where its share is all there are.

    `held` are those of the other instances that are held.
    """
    available = sorted(processors)
    num = math.ceil(share)
    if num >= len(available):
        return None
    load = Counter(one for others in held for one in others)
    return tuple(sorted(sorted(available, key=lambda one: load[one])[:num]))


def last_for_clients(num_allowed: int) -> int:
    """Return the highest descriptor that a client may have, of a process that is allowed so many.

    The kernel gives out the lowest that is free, so that a client's number tells how many there are.
    """
    return num_allowed - 1 - min(MAX_KEPT, max(1, num_allowed // DESCRIPTORS_KEPT))
