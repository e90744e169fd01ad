"""A handler that has its state, and the engines that answer with it: what an instance serves."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from faas.engine.assembly import Shared, assemble
from faas.engine.engine import Engine
from faas.errors import SchemaMismatch, SettingError
from faas.function import Endpoint
from faas.handler import Handler
from faas.messages import Call, Context
from faas.training import in_training

logger = logging.getLogger(__name__)


class Servable:
    """One state of a function, called `version`. `engines` are there, by path, once it is open.

    `place` tells it from others that have been called so.
    """

    def __init__(self, handler: Handler, shared: Shared, version: str, place: str = "") -> None:
        self.handler = handler
        self.version = version
        self._identity = f"{version}@{place}" if place else version
        self.engines: dict[str, Engine] = {}
        self._shared = shared

    async def open(self) -> None:
        """Make the engines."""
        if not self._shared.function.spec.grad:
            for name in in_training(self.handler.method(self._shared.function.main)):
                logger.warning("%s is in training mode, so its answers vary: call .eval() in setup()", name)
        for endpoint in self._shared.function.endpoints:
            engine = assemble(self.handler, endpoint, self._shared, version=self._identity)
            await engine.start()
            self.engines[endpoint.path] = engine

    async def warm_up(self, num_spared: int = 0) -> None:
        """Run the example inputs, all at once where they can be batched, and drop the answers. Raises what one does.

        num_spared: of them, from the first on, need not run
        """
        function = self._shared.function
        examples, main = function.spec.warmup or (), function.main
        inputs = [_example(main, number, example) for number, example in enumerate(examples)][num_spared:]
        for engine in _computing(self.engines[main.path]):
            if main.signature.batched:
                await asyncio.gather(*(self._warm(engine, one) for one in inputs))
            else:
                for one in inputs:
                    await self._warm(engine, one)

    @property
    def num_queued(self) -> int:
        """Calls that wait."""
        return sum(engine.num_queued for engine in self.engines.values())

    async def drain(self, grace_s: float) -> None:
        """Take no more calls and finish those in hand; what is unfinished after `grace_s` fails."""
        await asyncio.gather(*(engine.drain(grace_s) for engine in self.engines.values()))

    async def close(self) -> None:
        """End the engines at once."""
        await asyncio.gather(*(engine.close() for engine in self.engines.values()))

    async def _warm(self, engine: Engine, kwargs: dict[str, Any]) -> None:
        call = Call(kwargs, Context("warmup", model_version=self.version, clock=self._shared.clock))
        engine.submit(call)
        try:
            async for _ in call.events():
                pass
        finally:
            call.leave()


def _computing(engine: Engine) -> list[Engine]:
    """Return the engines that compute: those within one that chooses among them, or keeps their answers."""
    within: tuple[Engine, ...] | None = getattr(engine, "within", None)
    return [engine] if within is None else [found for each in within for found in _computing(each)]


def _example(endpoint: Endpoint, number: int, example: Any) -> dict[str, Any]:
    try:
        return endpoint.signature.convert(example)
    except SchemaMismatch as error:
        raise SettingError(f"warmup[{number}] does not fit {endpoint.method}: {error} (at {error.field})") from None
