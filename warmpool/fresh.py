"""What a forked worker undoes before it runs anything: the state of a zygote that must not be a worker's.

Each function here touches only modules that are loaded already; it imports nothing.
"""

import atexit
import random
import signal
import sys
import weakref

_PYTHON_DEFAULTS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGPIPE: signal.SIG_IGN,
    signal.SIGXFSZ: signal.SIG_IGN,
}


def reset_signals() -> None:
    """Give every signal the handling it has in a new interpreter; nothing is written to a shared wake-up descriptor.

    The caller has blocked all signals before the fork and unblocks them afterwards.
    """
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        default = _PYTHON_DEFAULTS.get(number, signal.SIG_DFL)
        if signal.getsignal(number) != default:
            signal.signal(number, default)


def reset_event_loop() -> None:
    """Forget the event loop and the policy that an import may have left."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        asyncio._set_running_loop(None)
        asyncio.set_event_loop_policy(None)


def reseed_random() -> None:
    """Reseed the global generators of Python, numpy and torch from the system's entropy, so that siblings differ."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):
        torch.default_generator.seed()  # torch.seed() would reach for the accelerators as well


def forget_exit_callbacks() -> None:
    """Drop the zygote's exit callbacks, and put back those of the standard library that work for this process too."""
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
        processes._run_after_forkers()
        atexit.register(processes._exit_function)
