"""Work that takes its time and must hold up neither the event loop nor the model thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from faas.engine.hop import promised

_T = TypeVar("_T")


async def aside(name: str, function: Callable[..., _T], *args: Any) -> _T:
    """Run `function(*args)` on a daemon thread of its own, called `name`, and return its value.

    Cancelling it leaves the thread to itself.

    Raises:
        BaseException: what the function raised.
    """
    job, future = promised(function, *args)
    threading.Thread(target=job, name=name, daemon=True).start()
    return await future
