"""What a platform counts of its functions, as Prometheus reads it; instances count their own calls themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from faas.platform.instances import State
from faas.platform.loop import ScalingLoop

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_COUNTS = {
    "requests": "Requests that came to the platform",
    "held": "Requests that waited for an instance",
    "retried": "Attempts of which no byte was read by an instance and that were made again",
    "failed": "Requests that the platform answered with an error or cut",
    "errors": "Requests that an instance answered with a status of 500 or more",
    "cancelled": "Requests whose callers left",
}


OF = ("function", "revision")


def expose(loops: Iterable[ScalingLoop]) -> bytes:
    """Return the metrics of all revisions that run as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(list(loops)))
    return generate_latest(registry)


class _Collector:
    def __init__(self, loops: list[ScalingLoop]) -> None:
        self._loops = loops

    def describe(self) -> Iterator[Metric]:
        """Say nothing ahead: a registry that is made for one answer need not know."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with a sample for each revision that runs."""
        for name, text in _COUNTS.items():
            family = CounterMetricFamily(f"faas_activator_{name}", text, labels=OF)
            for loop in self._loops:
                family.add_metric(_of(loop), getattr(loop.capacity.counts, name))
            yield family
        yield from self._instances()
        yield from self._starts()

    def _instances(self) -> Iterator[Metric]:
        instances = GaugeMetricFamily("faas_instances", "Instances by state", labels=[*OF, "state"])
        waiting = GaugeMetricFamily("faas_activator_waiting", "Requests that wait now", labels=OF)
        for loop in self._loops:
            states = Counter(made.state for made in loop.instances)
            for state in (State.STARTING, State.READY, State.DRAINING):
                instances.add_metric([*_of(loop), state.value], states[state])
            waiting.add_metric(_of(loop), loop.capacity.num_held)
        yield instances
        yield waiting

    def _starts(self) -> Iterator[Metric]:
        starts = CounterMetricFamily("faas_cold_starts", "Instances that became ready", labels=OF)
        seconds = HistogramMetricFamily(
            "faas_cold_start_seconds",
            "From the order of an instance until it was ready, and the phases of that",
            labels=[*OF, "phase"],
        )
        for loop in self._loops:
            for phase, durations in loop.starts.seconds.items():
                seconds.add_metric([*_of(loop), phase], durations.cumulative(), durations.total)
            starts.add_metric(_of(loop), loop.starts.num_ready)
        yield starts
        yield seconds


def _of(loop: ScalingLoop) -> list[str]:
    """Return the values of the labels `OF`."""
    return [loop.preparation.name, loop.preparation.revision]
