"""The local store, held to the budget that the environment sets."""

from __future__ import annotations

from faas import settings
from snapshot.collect import collect
from snapshot.local_store import LocalStore


def hold(store: LocalStore) -> None:
    """Let the least recently used snapshots go that are past `FAAS_SNAPSHOT_CACHE_BYTES`, where that is set."""
    budget_bytes = settings.read().snapshot_cache_bytes
    if budget_bytes is not None:
        collect(store, budget_bytes)
