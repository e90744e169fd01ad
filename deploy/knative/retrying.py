"""Trying again where somebody else was faster, or nobody there: a bounded number of times, with longer pauses."""

import threading
from collections.abc import Callable
from typing import TypeVar

from deploy.errors import Conflict, Unavailable

MAX_TRIES = 8  # Knative itself writes a service again and again while it comes up
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0

T = TypeVar("T")
Wait = Callable[[float], object]


def retried(attempt: Callable[[], T], wait: Wait | None = None) -> T:
    """What `attempt` returns once it meets no conflict and an answer; it must read anew each time.

    Raises the last `Conflict` or `Unavailable`.
    """
    wait = wait or threading.Event().wait
    for num_try in range(MAX_TRIES - 1):
        try:
            return attempt()
        except (Conflict, Unavailable):
            wait(min(_LONGEST_PAUSE_S, _PAUSE_S * 2.0**num_try))
    return attempt()
