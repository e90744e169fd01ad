"""What a function's instances count themselves, read from their /metrics while somebody looks at the function.

Nothing is counted twice and nothing runs when nobody looks. Instances that end take their counts along, except for
those that were read: these are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from faas.clock import Clock, monotonic

EVERY_S = 2.0
NUM_FUNCTIONS = 100
_ANSWER_S = 2.0
_MAX_ANSWER_BYTES = 2**20
_HISTOGRAMS = {
    "faas_request_seconds": "request_s",
    "faas_queue_seconds": "queue_s",
    "faas_exec_seconds": "exec_s",
    "faas_batch_size": "batch_size",
}
_GAUGES = {
    "faas_queue_depth": "queue_depth",
    "faas_inflight": "in_flight",
    "process_resident_memory_bytes": "resident_bytes",
}

Buckets = dict[str, float]
"""Counts by upper bound as Prometheus writes it; not cumulative."""


@dataclass
class Reading:
    """What one instance says of itself: histograms and gauges by the names that the page knows."""

    histograms: dict[str, Buckets] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)


def parse(text: str) -> Reading:
    """Return what the page shows of an instance's metrics. Raises ValueError where they are none."""
    reading = Reading()
    for family in text_string_to_metric_families(text):
        if family.name in _HISTOGRAMS:
            pairs = [(s.labels["le"], s.value) for s in family.samples if s.name.endswith("_bucket")]
            before = [0.0, *(total for _, total in pairs)]
            buckets = {bound: total - less for (bound, total), less in zip(pairs, before, strict=False)}
            reading.histograms[_HISTOGRAMS[family.name]] = buckets
        elif family.name in _GAUGES and family.samples:
            reading.gauges[_GAUGES[family.name]] = family.samples[0].value
    return reading


def add(readings: Iterable[Reading]) -> dict[str, Buckets]:
    """Return the sum of histograms."""
    sums: dict[str, Buckets] = {}
    for reading in readings:
        for name, buckets in reading.histograms.items():
            into = sums.setdefault(name, {})
            for bound, count in buckets.items():
                into[bound] = into.get(bound, 0.0) + count
    return sums


async def read_metrics(address: str) -> str:
    """Return the metrics of the instance that listens on the Unix socket at `address`.

    Raises:
        OSError: it does not answer, TimeoutError included, or not with metrics.
    """
    async with asyncio.timeout(_ANSWER_S):
        reader, writer = await asyncio.open_unix_connection(address, limit=_MAX_ANSWER_BYTES)
        try:
            writer.write(b"GET /metrics HTTP/1.0\r\nhost: instance\r\n\r\n")
            answer = await reader.read(_MAX_ANSWER_BYTES)
            while more := await reader.read(_MAX_ANSWER_BYTES):
                answer += more
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.split(b" ", 2)[1:2] != [b"200"]:
        raise OSError(f"the instance at {address} does not answer with its metrics")
    return body.decode()


class _Meter:
    def __init__(self) -> None:
        self.readings: dict[str, Reading] = {}
        self.ended = Reading()
        self.due_at = 0.0
        self.seen: object = None
        self.task: asyncio.Task[None] | None = None


class Meters:
    """The last readings by function."""

    def __init__(
        self,
        *,
        read: Callable[[str], Awaitable[str]] = read_metrics,
        clock: Clock = monotonic,
        changed: Callable[[], object],
    ) -> None:
        self._read = read
        self._clock = clock
        self._changed = changed
        self._meters: OrderedDict[str, _Meter] = OrderedDict()

    def look(self, name: str, addresses: Mapping[str, str], seen: object) -> float | None:
        """Read a function's instances (id to address) if that is due, in the background; `changed` tells of the end.

        There is nothing to read again while `seen`, what is known of the function's calls, is the same as before.
        Returns the seconds until it is due where there is something to read and it is not due yet.
        """
        meter = self._meter(name)
        self._bury(meter, addresses)
        if (
            meter.task is not None
            or not addresses
            or (meter.seen == seen and addresses.keys() <= meter.readings.keys())
        ):
            return None
        now = self._clock()
        if now < meter.due_at:
            return meter.due_at - now
        meter.due_at = now + EVERY_S
        meter.seen = seen
        meter.task = asyncio.ensure_future(self._refresh(meter, dict(addresses)))
        return None

    def summary(self, name: str) -> dict[str, Any]:
        """Return the sum of what a function's instances count, and the gauges of each."""
        meter = self._meter(name)
        gauges = {instance: reading.gauges for instance, reading in meter.readings.items()}
        return {"histograms": add([meter.ended, *meter.readings.values()]), "instances": gauges}

    def cancel(self) -> None:
        """Read no more."""
        for meter in self._meters.values():
            if meter.task is not None:
                meter.task.cancel()

    def _meter(self, name: str) -> _Meter:
        meter = self._meters.get(name)
        if meter is None:
            meter = self._meters[name] = _Meter()
            if len(self._meters) > NUM_FUNCTIONS:
                self._meters.popitem(last=False)
        self._meters.move_to_end(name)
        return meter

    async def _refresh(self, meter: _Meter, addresses: dict[str, str]) -> None:
        try:
            for instance, address in addresses.items():
                with contextlib.suppress(OSError, ValueError):  # it ends, or is too busy: the next time, then
                    meter.readings[instance] = parse(await self._read(address))
        finally:
            meter.task = None
            self._changed()

    @staticmethod
    def _bury(meter: _Meter, addresses: Mapping[str, str]) -> None:
        """Keep what instances that are gone have counted."""
        for instance in [one for one in meter.readings if one not in addresses]:
            gone = meter.readings.pop(instance)
            meter.ended = Reading(add([meter.ended, gone]))
