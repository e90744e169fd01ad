"""Objects that belong to the process they were made in: locks are made anew, what has a life of its own is refused.

A lock that nobody holds has no state. Python's events, conditions, semaphores, barriers and queues are made of such
locks and of plain values, so they come back as they were, with their items, once the locks do. A lock that is held
would come back held by nobody: it is refused, as are threads, child processes, open files and weak references. A view
of memory, which cloudpickle would make bytes of, has a copy of its own to look at.
"""

import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from snapshot.reducers import Reduced, Reducer

if TYPE_CHECKING:
    import asyncio
    import queue
    from concurrent.futures import ThreadPoolExecutor
    from typing import TextIO

_HELD = "it is held, and would come back held by nobody: freeze while it is free"


def _reduce_lock(lock: Any) -> Reduced:
    if lock.locked():
        raise TypeError(_HELD)
    return threading.Lock, ()


def _reduce_reentrant_lock(lock: Any) -> Reduced:
    if lock._is_owned() or not lock.acquire(blocking=False):
        raise TypeError(_HELD)
    lock.release()
    return threading.RLock, ()


def _reduce_async_lock(lock: "asyncio.Lock") -> Reduced:
    if lock.locked():
        raise TypeError(_HELD)
    return type(lock), ()


def _reduce_simple_queue(items: "queue.SimpleQueue[Any]") -> Reduced:
    if waiting := items.qsize():
        raise TypeError(f"it holds {waiting} items that can only be seen by taking them out: use queue.Queue")
    return type(items), ()


def _reduce_local(local: threading.local) -> Reduced:
    if type(local) is not threading.local or vars(local):
        raise TypeError("it holds values of one thread: keep them in an attribute")
    return threading.local, ()


def _reduce_executor(executor: "ThreadPoolExecutor") -> Reduced:
    if executor._threads or executor._shutdown:
        raise TypeError(f"its {len(executor._threads)} threads belong to this process: give it work after thawing")
    return type(executor), (
        executor._max_workers,
        executor._thread_name_prefix,
        executor._initializer,
        executor._initargs,
    )


def _reduce_text_file(file: "TextIO") -> Reduced:
    for name in ("stdin", "stdout", "stderr"):
        if file is getattr(sys, name):
            return getattr, (sys, name)
    return _OPEN_FILE(file)


def _reduce_memoryview(view: memoryview) -> Reduced:
    if view.ndim != 1 or not view.contiguous:
        raise TypeError("it is a view of scattered memory: keep the array that it looks at")
    content = bytes(view) if view.readonly else bytearray(view)
    return as_view, (content, view.format)


def as_view(content: bytes | bytearray, form: str) -> memoryview:
    """What skeletons name for a view of memory."""
    return memoryview(content).cast("B").cast(form)  # type: ignore[call-overload,no-any-return]


class _Refusal:
    """A reducer that refuses, for a reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __call__(self, one: object) -> Reduced:
        raise TypeError(f"{type(one).__name__} {self._reason}")


_OPEN_FILE = _Refusal("is an open file: keep its path or its content")
_WEAK = _Refusal("refers weakly to objects of this process: keep the objects themselves, or make it after thawing")
_RUNNING = "belongs to this process: start it after thawing, or register a reducer for it"

REDUCERS: Mapping[str, Reducer] = {
    "_thread.lock": _reduce_lock,
    "_thread.RLock": _reduce_reentrant_lock,
    "_thread._local": _reduce_local,
    "_queue.SimpleQueue": _reduce_simple_queue,
    "asyncio.locks.Lock": _reduce_async_lock,
    "builtins.memoryview": _reduce_memoryview,
    "_io.TextIOWrapper": _reduce_text_file,
    **dict.fromkeys(("_io.BufferedReader", "_io.BufferedWriter", "_io.BufferedRandom", "_io.FileIO"), _OPEN_FILE),
    **dict.fromkeys(("weakref.ReferenceType", "weakref.ProxyType", "weakref.CallableProxyType"), _WEAK),
    **dict.fromkeys(("weakref.WeakValueDictionary", "weakref.WeakKeyDictionary"), _WEAK),
    "threading.Thread": _Refusal(f"is a thread: it {_RUNNING}"),
    "subprocess.Popen": _Refusal(f"is a child process: it {_RUNNING}"),
    "asyncio.events.AbstractEventLoop": _Refusal(f"is an event loop: it {_RUNNING}"),
    "concurrent.futures._base.Future": _Refusal("is the outcome of a call that runs in this process: keep the outcome"),
    "tempfile.TemporaryDirectory": _Refusal("goes with this process: keep its files with snapshot.KeptFiles"),
    "ctypes.CDLL": _Refusal("is a loaded library: load it after thawing, or register a reducer for it"),
    "concurrent.futures.thread.ThreadPoolExecutor": _reduce_executor,
}
