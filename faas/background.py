"""An event loop in a thread of its own, for the synchronous doors of what is asynchronous."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class Background:
    """A loop that runs in a thread from the first use until the process ends."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faas calls", daemon=True)
        self._thread.start()
        self.pid = os.getpid()
        atexit.register(self._close)

    @property
    def runs(self) -> bool:
        """Whether work can still be given to it: not at the end of the process."""
        return not self._loop.is_closed() and self.pid == os.getpid()

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start `work` on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run `work` on the loop and wait for it; if the wait is interrupted, it is cancelled."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _close(self) -> None:
        """Cancel what still runs and close what the loop holds."""
        if self.pid != os.getpid():  # a copy that a fork left: its thread is not here
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._runner.close()


_lock = threading.Lock()
_background: Background | None = None


def background() -> Background:
    """Return the loop of this process; a forked child gets one of its own."""
    global _background
    with _lock:
        if _background is None or _background.pid != os.getpid():
            _background = Background()
        return _background
