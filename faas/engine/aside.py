"""Work that takes its time and must hold up neither the event loop nor the model thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from faas.engine.outcomes import presentable
from faas.engine.thread import hop

_T = TypeVar("_T")


async def aside(name: str, function: Callable[..., _T], *args: Any) -> _T:
    """Run `function(*args)` on a daemon thread of its own, called `name`, and return its value.

    Cancelling it leaves the thread to itself.

    Raises:
        BaseException: what the function raised.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def run() -> None:
        try:
            value, error = function(*args), None
        except BaseException as raised:
            value, error = None, presentable(raised)
        hop(loop, settle, value, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future
