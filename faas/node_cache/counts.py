"""What a node cache counts, as Prometheus reads it."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PIN_STATES: Final = ("ready", "pending", "too_large", "missing")


class Counts:
    """The numbers of one node."""

    def __init__(self, budget_bytes: int) -> None:
        self._registry = CollectorRegistry()
        self.held_bytes = self._gauge("bytes", "Bytes of the snapshots that the node holds")
        self.num_held = self._gauge("snapshots", "Snapshots that the node holds")
        self._gauge("budget_bytes", "Bytes that it may hold").set(budget_bytes)
        self.pins = Gauge(
            "faas_node_cache_pins", "Pinned snapshots, by how far they are", ["state"], registry=self._registry
        )
        self.pulls = self._counter("pulls", "Snapshots fetched")
        self.pulled_bytes = self._counter("pulled_bytes", "Bytes fetched")
        self.evicted = self._counter("evicted", "Snapshots removed for others")
        self.failures = self._counter("failures", "Rounds that could not do all that was to be done")

    def expose(self) -> bytes:
        """Return all of them as text."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, what: str) -> Gauge:
        return Gauge(f"faas_node_cache_{name}", what, registry=self._registry)

    def _counter(self, name: str, what: str) -> Counter:
        return Counter(f"faas_node_cache_{name}", what, registry=self._registry)
