"""Functions for callers who behave badly: one blocks, and counts what it computes; the others take bodies."""

import time
from typing import Any

from faas import Batching, Calls, inference_function

QUEUE = 100
BATCH = 8


@inference_function(
    name="blocked",
    batching=Batching(max_batch_size=BATCH, idle="now"),
    calls=Calls(max_queue=QUEUE),
    warmup=[{"sleep_s": 0}],
)
class Blocked:
    """Sleeps for `sleep_s` of an item, raises for one with `bad`, and answers how many `counted` it has computed."""

    def setup(self) -> None:
        self.num_counted = 0

    def predict(self, items: list[dict[str, Any]]) -> list[int]:
        self.num_counted += sum(item.get("counted", 0) for item in items)
        if any(item.get("bad") for item in items):
            raise ValueError("a bad item")
        time.sleep(max(item.get("sleep_s", 0.0) for item in items))
        return [self.num_counted] * len(items)


@inference_function(name="any-json", calls=Calls(max_payload="256Mi"), warmup=["x"])
async def any_json(body: Any) -> int:
    return len(body)


@inference_function(name="any-bytes", calls=Calls(max_payload="256Mi"), warmup=[b"x"])
async def any_bytes(body: bytes) -> int:
    return len(body)


@inference_function(name="small-json", warmup=["x"])
async def small_json(body: Any) -> int:
    """With the default limit of a body."""
    return len(body)


@inference_function(name="small-bytes", warmup=[b"x"])
async def small_bytes(body: bytes) -> int:
    return len(body)
