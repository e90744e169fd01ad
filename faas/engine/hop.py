"""From another thread back to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from faas.engine.outcomes import presentable

_T = TypeVar("_T")


def hop(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any) -> bool:
    """Call back on the loop from another thread. False if the loop has been closed: nobody waits any more."""
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        return False
    return True


def promised(
    function: Callable[..., _T], *args: Any, ended: Callable[[], None] | None = None
) -> tuple[Callable[[], None], asyncio.Future[_T]]:
    """Return `function(*args)` as a job for another thread, and the running loop's future of what it gives.

    When the job is through, `ended` is called on the loop, whether or not the future was cancelled meanwhile.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if ended is not None:
            ended()
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def job() -> None:
        try:
            value, error = function(*args), None
        except BaseException as raised:
            value, error = None, presentable(raised)
        hop(loop, settle, value, error)

    return job, future
