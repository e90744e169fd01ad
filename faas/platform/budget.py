"""Whether there is room for another instance, and who goes to make it: pure, in bytes.

What is held is what the kernel's proportional shares of all processes add up to, so that weights which many instances
map are counted once. What has not been looked at yet is estimated from what is known of its like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from faas.platform.eviction import GreedyDual, Idler

DEFAULT_SHARE = 0.8
"""The part of the machine's memory, or of the control group's limit, that a platform takes unless told otherwise."""
UNSEEN_BYTES = 64 * 2**20
"""What an instance takes beside its snapshot, as long as none of its kind has been looked at."""

_GIB, _MIB = 2**30, 2**20


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """What a platform may take, what it holds, and by how many instances and zygotes."""

    budget_bytes: int
    held_bytes: int
    num_instances: int
    num_zygotes: int


def default_budget(machine_bytes: int, group_bytes: int | None) -> int:
    """Return the budget of a platform that was given none, on a machine and in a group of processes with a limit."""
    bytes_there_are = machine_bytes if group_bytes is None else min(machine_bytes, group_bytes)
    return int(bytes_there_are * DEFAULT_SHARE)


def make_room(
    holdings: Holdings, needed_bytes: int, idlers: Mapping[str, Idler], dual: GreedyDual
) -> tuple[tuple[str, ...] | None, GreedyDual]:
    """Return who of `idlers` goes so that `needed_bytes` more fit, and the state of the evictions after that.

    None where not even the end of all of them would do: then nobody goes.
    """
    short_bytes = holdings.held_bytes + needed_bytes - holdings.budget_bytes
    if short_bytes <= 0:
        return (), dual
    if sum(idler.num_bytes for idler in idlers.values()) < short_bytes:
        return None, dual
    return dual.evict(idlers, short_bytes)


def needed(state_bytes: int, seen_bytes: int | None) -> int:
    """Return what another instance will take, from its snapshot and from the most that one of its kind took alone."""
    return state_bytes + UNSEEN_BYTES if seen_bytes is None else seen_bytes


def refusal(name: str, holdings: Holdings, needed_bytes: int, idle_bytes: int) -> str:
    """Return why no instance of a function can be started, for who waits for it."""
    return (
        f"no memory for an instance of {name}: it needs about {needed_bytes / _MIB:.0f} MiB, and "
        f"{holdings.held_bytes / _GIB:.2f} of {holdings.budget_bytes / _GIB:.2f} GiB are held by "
        f"{_count(holdings.num_instances, 'instance')} and {_count(holdings.num_zygotes, 'zygote')}, of which "
        f"{idle_bytes / _MIB:.0f} MiB idle; faas up --memory gives the platform more"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
