"""A model whose batch takes 10 ms whatever its size."""

import time
from typing import Any

from faas import Batching, inference_function


@inference_function(name="flat", batching=Batching(max_batch_size=32, wait_ms=5), warmup=[0])
def flat(items: list[Any]) -> list[Any]:
    time.sleep(0.010)
    return items
