"""A folder store within a budget: what goes, decided.

The least recently used goes first; what is in use stays, whatever the budget. A file that several hold is counted
once, and goes with the last of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from snapshot.mapped import FileId

Kind = Literal["snapshot", "partial", "blob", "leftover"]

NO_BUDGET = "has no budget to fit into"
WITHIN_BUDGET = "fits into the budget"
LEAST_RECENTLY_USED = "was used the longest ago"


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a store that holds files.

    kind: a snapshot; a file that was not written to its end; a blob that nothing holds; what a killed process left
    name, digest: of a snapshot, else one of them or none
    last_used: the time of its last use, in seconds since the epoch, as files have it
    files: the size of each, in bytes
    must_go, must_stay: why, whatever the budget
    """

    kind: Kind
    path: Path
    name: str = ""
    digest: str = ""
    last_used: float = 0.0
    files: Mapping[FileId, int]
    must_go: str | None = None
    must_stay: str | None = None

    @property
    def num_bytes(self) -> int:
        """The size of its files, those too that others hold."""
        return sum(self.files.values())


class Choice(msgspec.Struct, frozen=True):
    """What goes and what stays, each with the reason."""

    going: list[tuple[Holder, str]]
    staying: list[tuple[Holder, str]]


def choose(holders: Sequence[Holder], budget_bytes: int | None) -> Choice:
    """Decide what goes so that the rest fits into the budget, as far as what must stay allows it.

    Without a budget only that goes which must. Unfinished files go before snapshots.
    """
    going = [(one, one.must_go) for one in holders if one.must_go]
    staying = [(one, one.must_stay) for one in holders if not one.must_go and one.must_stay]
    open_ones = [one for one in holders if not (one.must_go or one.must_stay)]
    if budget_bytes is None:
        return Choice(going, staying + [(one, NO_BUDGET) for one in open_ones])
    counts = Counter(file for one in holders if not one.must_go for file in one.files)
    num_bytes = held_bytes([one for one in holders if not one.must_go])
    for one in sorted(open_ones, key=lambda one: (one.kind == "snapshot", one.last_used)):
        if num_bytes <= budget_bytes:
            staying.append((one, WITHIN_BUDGET))
            continue
        going.append((one, LEAST_RECENTLY_USED))
        counts.subtract(one.files.keys())
        num_bytes -= sum(size for file, size in one.files.items() if not counts[file])
    return Choice(going, staying)


def held_bytes(holders: Sequence[Holder]) -> int:
    """What the holders take together, in bytes."""
    files = {file: size for one in holders for file, size in one.files.items()}
    return sum(files.values())
