"""A function whose calls take a while, so that some are always under way."""

import asyncio

from faas import Scaling, inference_function


@inference_function(scaling=Scaling(max_instances=2))
async def nap(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds
