"""An interrupt that ends a run and still has its report."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_interrupt() -> Iterator[asyncio.Event]:
    """Yield an event for `run(stop=...)` that SIGINT sets, in place of what SIGINT did before; on the main thread."""
    loop, stop, before = asyncio.get_running_loop(), asyncio.Event(), signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, stop.set)
    try:
        yield stop
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
