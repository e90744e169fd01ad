"""Which items of a batch that raised are to blame: a plan of re-runs, without running anything itself."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

FEW: Final = 4


class Failed(msgspec.Struct, Generic[T], frozen=True):
    """Items that failed, and the error of the smallest run with them that raised.

    That run had `num_together` items. Where it is more than one, nobody knows which of them is to blame.
    """

    items: Sequence[T]
    error: BaseException
    num_together: int


Plan = Generator[Sequence[T], BaseException | None, list[Failed[T]]]


def max_reruns(num_items: int) -> int:
    """Return how many re-runs a batch may cost: 2 * ceil(log2(n)) + 4.

    One bad item needs two at each halving. The rest lets a second one be found in most cases.
    """
    return 2 * math.ceil(math.log2(num_items)) + FEW if num_items > 1 else 0


def as_is(num_items: int) -> int:
    """A batch is run in the size that it has."""
    return num_items


def reruns(items: Sequence[T], error: BaseException, smaller: Callable[[int], int] = as_is) -> Plan[T]:
    """Plan what to run again after a batch of `items` raised `error`.

    `smaller(n)` is how many items, n where it makes no difference, run as a smaller batch than n of them do.

    Yields what to run next and is sent None, or what that run raised. Returns those who failed; all others have had
    a run that went well. Halves are re-run, larger groups first, until each bad item has raised alone or `max_reruns`
    are used up. A right half is not run as a whole where its left went well, since it must hold the fault. Running out
    of memory is not an item's fault: such a group is halved once, or cut into what runs as a smaller batch where its
    halves would not, and what fails again fails together.
    """
    failed: list[Failed[T]] = []
    left = max_reruns(len(items))
    groups = deque([Failed(items, error, len(items))])
    while groups:
        group = groups.popleft()
        if len(group.items) == 1 or left == 0:
            failed.append(group)
            continue
        memory = out_of_memory(group.error)
        suspect = False
        for half in _cut(group.items, smaller(len(group.items)) if memory else len(group.items)):
            if suspect and len(half) > 1:
                groups.append(Failed(half, group.error, group.num_together))
                continue
            if left == 0:
                failed.append(Failed(half, group.error, group.num_together))
                continue
            left -= 1
            raised = yield half
            suspect = raised is None and not memory
            if raised is not None:
                (failed if memory and out_of_memory(raised) else groups).append(Failed(half, raised, len(half)))
    return failed


def _cut(items: Sequence[T], most: int) -> list[Sequence[T]]:
    """Return the halves, or parts of at most `most` where those are larger."""
    middle = len(items) // 2
    if len(items) - middle <= most:
        return [items[:middle], items[middle:]]
    return [items[begin : begin + most] for begin in range(0, len(items), most)]


def out_of_memory(error: BaseException) -> bool:
    """Whether the error says that memory ran out, in Python or in torch (which is not imported for that)."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
