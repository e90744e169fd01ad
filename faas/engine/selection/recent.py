"""The calls that feedback may still come for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Answered:
    """What feedback on a call needs to know: the context that it was in, and who answered.

    `probability` is that with which `drawn` was drawn; `labels` are the answers of those that all were asked.
    """

    context: str
    drawn: str = ""
    probability: float = 1.0
    labels: Mapping[str, bytes] = field(default_factory=dict)


class Recent:
    """The last `most` calls by their request ids. A call is taken once: its feedback counts once."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._held: OrderedDict[str, Answered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, request_id: str, answered: Answered) -> None:
        """Remember a call; of two with one id the later one."""
        self._held[request_id] = answered
        self._held.move_to_end(request_id)
        if len(self._held) > self.most:
            self._held.popitem(last=False)

    def get(self, request_id: str) -> Answered | None:
        """Return a call that is remembered."""
        return self._held.get(request_id)

    def take(self, request_id: str) -> None:
        """Forget a call, which has had its feedback."""
        self._held.pop(request_id, None)
