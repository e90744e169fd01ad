"""Keeping a zygote's state out of its workers.

What can be dropped once is dropped in the zygote, after its imports, so that no worker spends time or memory on it
(`settle`). What must happen in each worker is `start_worker`. Nothing here imports what is not loaded already.
"""

import atexit
import gc
import signal
import sys
import weakref
from typing import Any

from warmpool import generators

_PYTHON_DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGPIPE: signal.SIG_IGN,
    signal.SIGXFSZ: signal.SIG_IGN,
}


def settle() -> None:
    """Drop what the imports have set up in this process; it runs nothing of theirs from here on."""
    _reset_signals()
    _reset_event_loop()
    _forget_exit_callbacks()
    generators.find()


def start_worker() -> None:
    """Make this forked worker differ from its siblings, and collect garbage again."""
    generators.reseed()
    processes = sys.modules.get("multiprocessing.util")
    if processes is not None:
        processes._run_after_forkers()
    gc.enable()


def _reset_signals() -> None:
    """Give every signal what it has in a new interpreter, and write none to a wake-up descriptor that workers share."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, _PYTHON_DEFAULTS.get(number, signal.SIG_DFL))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _reset_event_loop() -> None:
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        asyncio._set_running_loop(None)
        asyncio.set_event_loop_policy(None)


def _forget_exit_callbacks() -> None:
    """Drop the exit callbacks, but put back those of the standard library that serve whichever process they run in."""
    atexit._clear()
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    logging = sys.modules.get("logging")
    if logging is not None:
        atexit.register(logging.shutdown)
    processes = sys.modules.get("multiprocessing.util")
    if processes is not None:
        processes._finalizer_registry.clear()
        atexit.register(processes._exit_function)
