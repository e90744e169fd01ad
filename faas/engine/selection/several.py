"""What engines over the variants of a function share: they start, drain and end together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from faas.engine.engine import Engine
from faas.messages import Call


@dataclass(frozen=True)
class Candidate:
    """A variant and the engine that answers with it."""

    name: str
    engine: Engine


class Counts:
    """What is counted of a selection, for the metrics of its instance."""

    def __init__(self, names: Sequence[str]) -> None:
        self.variants = dict.fromkeys(names, 0)
        self.defaults: dict[str, int] = {}


class Several(Engine):
    """Engines of variants, each of which takes some of the calls."""

    def __init__(self, candidates: Sequence[Candidate], counts: Counts) -> None:
        self.candidates = tuple(candidates)
        self.within = tuple(candidate.engine for candidate in candidates)
        self._counts = counts

    @property
    def num_queued(self) -> int:
        """Calls that wait, once for each variant that they wait for."""
        return sum(candidate.engine.num_queued for candidate in self.candidates)

    @property
    def num_running(self) -> int:
        """Calls that are computed, once for each variant that computes them."""
        return sum(candidate.engine.num_running for candidate in self.candidates)

    async def start(self) -> None:
        """See `Engine`."""
        await asyncio.gather(*(candidate.engine.start() for candidate in self.candidates))

    async def drain(self, grace_s: float) -> None:
        """See `Engine`."""
        await asyncio.gather(*(candidate.engine.drain(grace_s) for candidate in self.candidates))

    async def close(self) -> None:
        """See `Engine`."""
        await asyncio.gather(*(candidate.engine.close() for candidate in self.candidates))

    def _give(self, call: Call, candidate: Candidate) -> None:
        """Have one variant answer the call itself, and say which."""
        self._counts.variants[candidate.name] += 1
        call.note("variant", candidate.name)
        candidate.engine.submit(call)
