"""The usual hand-written batcher on starlette: from the first item on it waits for 32 items or 5 ms.

The model sleeps for 10 ms whatever the size of its batch.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

queue: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()


def predict(items: list[Any]) -> list[Any]:
    time.sleep(0.010)
    return items


async def run_batches() -> None:
    loop = asyncio.get_running_loop()
    while True:
        batch = [await queue.get()]
        deadline = loop.time() + 0.005
        while len(batch) < 32:
            try:
                batch.append(await asyncio.wait_for(queue.get(), deadline - loop.time()))
            except TimeoutError:
                break
        results = await loop.run_in_executor(None, predict, [item for item, _ in batch])
        for (_, waiting), result in zip(batch, results, strict=True):
            waiting.set_result(result)


async def answer(request: Request) -> JSONResponse:
    waiting = asyncio.get_running_loop().create_future()
    queue.put_nowait((await request.json(), waiting))
    return JSONResponse(await waiting)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    batches = asyncio.create_task(run_batches())
    yield
    batches.cancel()


app = Starlette(routes=[Route("/", answer, methods=["POST"])], lifespan=lifespan)

if __name__ == "__main__":
    uvicorn.run(
        app, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_config=None
    )
