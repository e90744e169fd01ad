"""How calls are joined into one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from faas.errors import SettingError
from faas.spec.checks import choice, flag, is_whole, number, policy, whole
from faas.spec.padding import Pad
from faas.spec.queueing import QueuePolicy, Sequences
from faas.spec.rate_limit import RateLimit, pool_sizes

_MIN_SLO_MS: Final = 1.0
"""The resolution of an event loop's timers."""


@policy
class Batching:
    """How calls are joined into one: at most `max_batch_size` items, gathered for at most `wait_ms`.

    `slo_ms` gives each item a deadline. `idle` says what an idle executor does: "adaptive" gathers only while it pays,
    "now" never gathers, "wait" always does. `on_item_error` "isolate" re-runs halves of a batch that raised so that
    only the bad item fails; "fail_batch" fails them all. `allowed_batch_sizes` pads a batch up with copies of its last
    item; `preferred_batch_sizes` leave without waiting. `instances` batches are computed at once.

    With `rows` an item carries several rows, and sizes count these. `pad` joins items of unequal length; `buckets` are
    the lengths that they are padded up to, and only items of one bucket are joined.

    `priorities` is the number of levels; 1 is the highest, and `default_priority` is for calls that state none.
    `queue` says what may wait, `levels` what in single levels instead. `preserve_order` gives answers in the order in
    which the calls came. `sequences` keeps calls that belong together in order.

    `rate_limit` says what units of shared resources a batch needs: one for all that answer, or by the method's name.
    """

    max_batch_size: int = 32
    wait_ms: float = 5.0
    slo_ms: float | None = None
    idle: Literal["adaptive", "now", "wait"] = "adaptive"
    on_item_error: Literal["isolate", "fail_batch"] = "isolate"
    allowed_batch_sizes: tuple[int, ...] | None = None
    preferred_batch_sizes: tuple[int, ...] = ()
    instances: int = 1
    rows: bool = False
    pad: float | Callable[..., Any] | Pad | None = None
    buckets: tuple[int, ...] = ()
    priorities: int = 1
    default_priority: int | None = None
    queue: QueuePolicy = QueuePolicy()
    levels: Mapping[int, QueuePolicy] = dataclasses.field(default_factory=dict, hash=False)
    preserve_order: bool = False
    sequences: Sequences | None = None
    rate_limit: RateLimit | Mapping[str, RateLimit] | None = dataclasses.field(default=None, hash=False)

    def __post_init__(self) -> None:
        whole(self, "max_batch_size", 1, 65_536)
        number(self, "wait_ms", 0)
        if self.slo_ms is not None:
            number(self, "slo_ms", _MIN_SLO_MS)
            if self.wait_ms >= self.slo_ms:
                raise SettingError(
                    f"Batching(wait_ms={self.wait_ms:g}, slo_ms={self.slo_ms:g}): the wait alone would use up the "
                    "whole latency objective; lower wait_ms"
                )
        choice(self, "idle", ("adaptive", "now", "wait"))
        choice(self, "on_item_error", ("isolate", "fail_batch"))
        whole(self, "instances", 1, 64)
        for field in ("rows", "preserve_order"):
            flag(self, field)
        self._check_sizes()
        self._check_items()
        self._check_queue()
        self._check_rate_limit()

    @property
    def padding(self) -> Pad | None:
        """How items are padded; None where they are not."""
        return None if self.pad is None else Pad.of(self.pad)

    def queue_policy(self, level: int) -> QueuePolicy:
        """Return what may wait in a level, from 1 to `priorities`."""
        return self.levels.get(level, self.queue)

    @property
    def limits(self) -> tuple[RateLimit, ...]:
        """What batches need beside their place, of whatever methods; empty where they need nothing."""
        if isinstance(self.rate_limit, Mapping):
            return tuple(self.rate_limit.values())
        return () if self.rate_limit is None else (self.rate_limit,)

    def limit_of(self, method: str) -> RateLimit | None:
        """Return what a batch of a method needs beside its place; None where that is nothing."""
        return self.rate_limit.get(method) if isinstance(self.rate_limit, Mapping) else self.rate_limit

    def _check_sizes(self) -> None:
        if self.allowed_batch_sizes is not None:
            sizes = self._rising("allowed_batch_sizes")
            if not sizes or sizes[-1] != self.max_batch_size:
                raise SettingError(
                    f"Batching(allowed_batch_sizes={sizes!r}): must rise, and end with "
                    f"max_batch_size={self.max_batch_size}"
                )
        sizes = self._rising("preferred_batch_sizes")
        if not sizes:
            return
        if sizes[-1] > self.max_batch_size:
            raise SettingError(
                f"Batching(preferred_batch_sizes={sizes!r}, max_batch_size={self.max_batch_size}): "
                "no batch becomes that large"
            )
        padded = [size for size in sizes if self.allowed_batch_sizes and size not in self.allowed_batch_sizes]
        if padded:
            raise SettingError(
                f"Batching(preferred_batch_sizes={sizes!r}, allowed_batch_sizes={self.allowed_batch_sizes!r}): "
                f"a batch of {padded[0]} would be padded up; prefer sizes that are allowed"
            )
        if self.idle == "adaptive":
            raise SettingError(
                f'Batching(preferred_batch_sizes={sizes!r}, idle="adaptive"): it chooses sizes itself; '
                'set idle="wait" or idle="now"'
            )

    def _rising(self, field: str) -> tuple[int, ...]:
        """Check that a field holds whole numbers that rise, and keep them as a tuple."""
        given = getattr(self, field)
        sizes = tuple(given) if isinstance(given, list | tuple) else None
        if sizes is None or not all(is_whole(size, 1) for size in sizes) or list(sizes) != sorted(set(sizes)):
            raise SettingError(f"Batching({field}={given!r}): must rise; write whole numbers, as (1, 4, 16)")
        object.__setattr__(self, field, sizes)
        return sizes

    def _check_items(self) -> None:
        padding = self.padding
        buckets = self._rising("buckets")
        if buckets and padding is None:
            raise SettingError(f"Batching(buckets={buckets!r}, pad=None): items are padded up to them; set pad=0")
        if self.rows and padding is not None:
            raise SettingError(
                "Batching(rows=True, pad=...): items carry rows, or have a length of their own; take one"
            )
        if self.sequences is not None and not isinstance(self.sequences, Sequences):
            raise SettingError(f"Batching(sequences={self.sequences!r}): must be a Sequences(...)")
        if self.sequences is not None and self.instances > 1:
            raise SettingError(
                f"Batching(instances={self.instances}, sequences=...): calls of a sequence run one after another, and "
                "so do batches; set instances=1"
            )
        if self.sequences is not None and self.slo_ms is not None:
            raise SettingError(
                f"Batching(slo_ms={self.slo_ms:g}, sequences=...): a call of a sequence waits for those before it, and "
                "nothing can be promised for that; leave one of them out"
            )
        if self.sequences is not None and self.allowed_batch_sizes is not None:
            raise SettingError(
                f"Batching(allowed_batch_sizes={self.allowed_batch_sizes!r}, sequences=...): the copies that a batch "
                "is padded up with would be further steps of its last sequence; leave one of them out"
            )
        if self.rows and self.sequences is not None:
            raise SettingError(
                "Batching(rows=True, sequences=...): an item of a sequence holds one slot and cannot carry more rows"
            )

    def _check_queue(self) -> None:
        whole(self, "priorities", 1, 100)
        if self.default_priority is not None:
            whole(self, "default_priority", 1, self.priorities)
        if not isinstance(self.queue, QueuePolicy):
            raise SettingError(f"Batching(queue={self.queue!r}): must be a QueuePolicy(...)")
        if not isinstance(self.levels, Mapping):
            raise SettingError(f"Batching(levels={self.levels!r}): must map levels to QueuePolicy(...)")
        for level, held in self.levels.items():
            if not is_whole(level, 1, self.priorities):
                raise SettingError(
                    f"Batching(levels={{{level!r}: ...}}, priorities={self.priorities}): there is no such level; "
                    "raise priorities"
                )
            if not isinstance(held, QueuePolicy):
                raise SettingError(f"Batching(levels={{{level}: {held!r}}}): must be a QueuePolicy(...)")
        for level in range(1, self.priorities + 1):
            self._check_timeout(self.queue_policy(level))
        if self.preserve_order and self.priorities > 1:
            raise SettingError(
                f"Batching(preserve_order=True, priorities={self.priorities}): answers cannot leave as calls came "
                "where others go first; take one of the two"
            )

    def _check_rate_limit(self) -> None:
        limits = self.limits
        if self.rate_limit is not None and not (limits and all(isinstance(one, RateLimit) for one in limits)):
            raise SettingError(
                f"Batching(rate_limit={self.rate_limit!r}): must be a RateLimit(...), or map methods to RateLimit(...)"
            )
        pool_sizes(limits)

    def _check_timeout(self, held: QueuePolicy) -> None:
        timeout_ms = held.timeout_ms
        if timeout_ms is None:
            return
        if self.slo_ms is not None and timeout_ms > self.slo_ms:
            raise SettingError(
                f"Batching(slo_ms={self.slo_ms:g}) and QueuePolicy(timeout_ms={timeout_ms:g}): who has waited that "
                "long was refused at slo_ms; lower timeout_ms, or leave it out"
            )
        if self.idle != "wait" or held.timeout_action != "reject":
            return
        if timeout_ms <= self.wait_ms:
            raise SettingError(
                f'Batching(idle="wait", wait_ms={self.wait_ms:g}) and QueuePolicy(timeout_ms={timeout_ms:g}): '
                "a lone item would be refused before it is computed; lower wait_ms"
            )
