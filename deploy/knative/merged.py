"""Several sources that block, read as one: a thread for each, one queue, in the order in which things come."""

import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Ended:
    """What comes last from a source; `error` is what it raised, if it did."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


class Merged(Generic[T]):
    """Sources by key. A context: at its end every source is stopped and its thread joined."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Hashable, T | Ended]] = queue.SimpleQueue()
        self._sources: dict[Hashable, tuple[threading.Thread, Callable[[], None]]] = {}

    def __enter__(self) -> "Merged[T]":
        return self

    def __exit__(self, *_: object) -> None:
        for _thread, stop in self._sources.values():
            stop()
        for thread, _stop in self._sources.values():
            thread.join(timeout=5)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._sources

    def add(self, key: Hashable, items: Iterator[T], stop: Callable[[], None]) -> None:
        """Read `items` in a thread of its own; `stop` must make a read that blocks return."""

        def read() -> None:
            error: Exception | None = None
            try:
                for item in items:
                    self._queue.put((key, item))
            except Exception as failed:  # raised again where it is read
                error = failed
            self._queue.put((key, Ended(error)))

        thread = threading.Thread(target=read, name=f"merged-{key}", daemon=True)
        self._sources[key] = (thread, stop)
        thread.start()

    def next(self, timeout_s: float | None) -> tuple[Hashable, T | Ended] | None:
        """The next item of any source with its key, an `Ended` once for each; None where none comes in time."""
        try:
            key, item = self._queue.get(timeout=None if timeout_s is None else max(0.0, timeout_s))
        except queue.Empty:
            return None
        if isinstance(item, Ended):
            del self._sources[key]
        return key, item


def left(deadline: float | None, clock: Callable[[], float] = time.monotonic) -> float | None:
    """The seconds until `deadline`, None where there is no deadline."""
    return None if deadline is None else max(0.0, deadline - clock())
