"""The echo of `handlers.echo` with the batcher in the way, one item a batch: on the event loop, and on the thread."""

from typing import Any

from faas import Batching, Calls, inference_function

_ONE = Batching(max_batch_size=1)
_CALLS = Calls(max_queue=64)  # thirty-two callers at once are more than the default queue holds for batches of one


@inference_function(name="batched-echo", batching=_ONE, calls=_CALLS, warmup=[{"message": "hello"}])
async def batched_echo(bodies: list[Any]) -> list[Any]:
    return bodies


@inference_function(name="threaded-echo", batching=_ONE, calls=_CALLS, warmup=[{"message": "hello"}])
def threaded_echo(bodies: list[Any]) -> list[Any]:
    return bodies
