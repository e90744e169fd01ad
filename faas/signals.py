"""The signals that ask a server to end, and what they do in processes that its handlers fork."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Collection, Iterator

_handled: set[signal.Signals] = set()
_has_hooks = False
_forking = threading.local()


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return SIGTERM, SIGINT, and SIGHUP unless it is ignored, as under `nohup`."""
    always = (signal.SIGTERM, signal.SIGINT)
    return always if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*always, signal.SIGHUP)


@contextlib.contextmanager
def not_inherited(handled: Collection[signal.Signals]) -> Iterator[None]:
    """Have these signals do in a process that is forked while the block runs what they do in a new one.

    An event loop hears of them by a descriptor that a forked process has, too. A child that is sent SIGTERM, as pools
    of processes end theirs, would not end, and this process would in its place.
    """
    global _has_hooks
    if not _has_hooks:
        os.register_at_fork(before=_hold, after_in_parent=_let, after_in_child=_reset)
        _has_hooks = True
    _handled.update(handled)
    try:
        yield
    finally:
        _handled.difference_update(handled)


def _hold() -> None:
    """Have a signal that a child is sent at once wait until the child has made up its own mind about it."""
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _handled)


def _let() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _reset() -> None:
    if _handled:
        signal.set_wakeup_fd(-1)
        for signum in _handled:
            signal.signal(signum, signal.default_int_handler if signum is signal.SIGINT else signal.SIG_DFL)
        _handled.clear()
    _let()
