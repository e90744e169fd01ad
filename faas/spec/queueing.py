"""What may wait for a batch and for how long, and which calls belong together."""

from __future__ import annotations

from typing import Literal

from faas.errors import SettingError
from faas.spec.checks import choice, flag, number, policy, whole


@policy
class QueuePolicy:
    """What may wait in a queue, or in one level of it.

    An item that has waited for `timeout_ms` is refused ("reject"), or stands behind all that have not, at its level or
    a higher one ("delay"; it may then wait for ever). `max_queue` bounds the items that wait. A caller may shorten
    the time, never lengthen it, where `allow_timeout_override` says so.
    """

    timeout_ms: float | None = None
    timeout_action: Literal["reject", "delay"] = "reject"
    max_queue: int | None = None
    allow_timeout_override: bool = False

    def __post_init__(self) -> None:
        if self.timeout_ms is not None:
            number(self, "timeout_ms", 0, above=True)
        choice(self, "timeout_action", ("reject", "delay"))
        flag(self, "allow_timeout_override")
        if self.max_queue is not None:
            whole(self, "max_queue", 1)
        if self.timeout_action == "delay" and self.timeout_ms is None and not self.allow_timeout_override:
            raise SettingError(
                'QueuePolicy(timeout_action="delay", timeout_ms=None): nothing is ever late; set timeout_ms'
            )

    @property
    def times_out(self) -> bool:
        """Whether an item may be late at all."""
        return self.timeout_ms is not None or self.allow_timeout_override


@policy
class Sequences:
    """Calls with a sequence's id are computed in order, one at a time, and hold one of `num_slots` until it ends.

    `num_slots` None is as many as can be computed at once. A sequence without a call for `idle_s` loses its slot.
    """

    num_slots: int | None = None
    idle_s: float = 1.0

    def __post_init__(self) -> None:
        if self.num_slots is not None:
            whole(self, "num_slots", 1)
        number(self, "idle_s", 0, above=True)
