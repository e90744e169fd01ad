"""The functions of the platform that the end-to-end tests bring up."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

from faas import Batching, Calls, Context, Scaling, endpoint, inference_function

SHORT = Scaling(max_instances=2, scaledown_window_s=6)


@inference_function(scaling=SHORT, warmup=[{"hello": "world"}])
async def echo(body: Any) -> Any:
    return body


@inference_function(name="mean", batching=Batching(max_batch_size=8, wait_ms=20), scaling=SHORT)
class Mean:
    def setup(self) -> None:
        self.sizes: list[int] = []
        self.pid_of_setup = os.getpid()

    def predict(self, rows: list[list[float]]) -> list[float | Exception]:
        time.sleep(0.02)
        return [sum(row) / len(row) if row else ValueError("empty row") for row in rows]

    @endpoint("/pids")
    def pids(self, rows: list[int]) -> list[list[int]]:
        return [[self.pid_of_setup, os.getpid()] for _ in rows]


@inference_function(name="counts", scaling=SHORT, warmup=[0])
class Counts:
    """Opens a file at each call, so that no zygote answers the example for its instances."""

    def setup(self) -> None:
        self.files: list[int] = []

    def predict(self, x: int) -> int:
        self.files.append(os.open(os.devnull, os.O_RDONLY))
        return len(self.files)


@inference_function(scaling=SHORT, calls=Calls(timeout_s=2))
async def slow(seconds: float, context: Context) -> str:
    print(f"sleeping {context.request_id}", flush=True)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        print(f"cancelled {context.request_id}", flush=True)
        raise
    return "slept"


@inference_function(scaling=SHORT)
async def ticks(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i
        await asyncio.sleep(0.02)


@inference_function(scaling=SHORT)
async def dies(how: str) -> str:
    match how:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "abort":
            os.abort()
        case "exit":
            os._exit(0)
    await asyncio.sleep(0.1)
    return how


@inference_function(scaling=SHORT, snapshot="off")
class Broken:
    def setup(self) -> None:
        if "FAAS_PLATFORM_SOCKET" in os.environ:
            raise RuntimeError("the model is not here")

    def predict(self, x: int) -> int:
        return x


@inference_function(scaling=SHORT)
async def pids(x: int) -> int:
    return os.getpid()


@inference_function(scaling=SHORT)
async def asks(rows: list[list[float]]) -> list[float]:
    means: list[float] = await Mean.amap(rows)
    return means
