"""Threads of libraries that may be ended at any time, since the library starts another when it needs one."""

from __future__ import annotations

import threading
from typing import Final

_ENDED_BY: Final = {"tqdm._monitor.TMonitor": "exit"}
"""Classes of such threads, and the method by which each library has one of its threads ended and waited for."""


def end() -> None:
    """End those of this process: a thread is in no snapshot, and no process that has several can be forked."""
    for thread in threading.enumerate():
        kind = type(thread)
        method = _ENDED_BY.get(f"{kind.__module__}.{kind.__qualname__}")
        if method is not None:
            getattr(thread, method)()
