"""Functions that go back to zero as soon as the platform allows: 6 s after their last call."""

import asyncio
import random
from typing import Any

from benchmarks.functions.plain import PlainEmbed
from faas import Batching, Scaling, inference_function

BRIEF = Scaling(scaledown_window_s=6)


@inference_function(name="brief", scaling=BRIEF, warmup=[{"message": "hello"}])
async def brief(body: Any) -> Any:
    return body


@inference_function(name="slow", scaling=Scaling(max_instances=3), warmup=[1])
async def slow(body: Any) -> Any:
    """Answer after up to 50 ms, so that a scale-down finds calls in flight."""
    await asyncio.sleep(random.uniform(0, 0.05))
    return body


@inference_function(
    name="sentences",
    batching=Batching(max_batch_size=32, wait_ms=5),
    scaling=Scaling(max_instances=4, scaledown_window_s=6),
    warmup=["a sentence to warm up with"],
)
class Sentences:
    """The handler of `handlers.embed`."""

    def setup(self) -> None:
        self.embed = PlainEmbed()
        self.embed.setup()

    def predict(self, sentences: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self.embed.predict(sentences)
        return vectors
