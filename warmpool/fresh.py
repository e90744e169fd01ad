"""Keeping a zygote's state out of its workers.

What can be dropped once is dropped in the zygote, after its imports, so that no worker spends time or memory on it
(`settle`). What must happen in each worker is `start_worker`. Nothing here imports what is not loaded already.
"""

import atexit
import gc
import os
import random
import signal
import sys
import weakref
from collections.abc import Iterator
from typing import Any

_LONGEST_SEED_BITS = 64
_PYTHON_DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGPIPE: signal.SIG_IGN,
    signal.SIGXFSZ: signal.SIG_IGN,
}


_seeded_by_system: list[Any] = []
"""Numpy's generators that imports and preloads have made without a seed: `BitGenerator`s."""


def settle() -> None:
    """Drop what the imports have set up in this process; it runs nothing of theirs from here on."""
    _reset_signals()
    _reset_event_loop()
    _forget_exit_callbacks()
    _seeded_by_system.extend(_find_seeded_by_system())


def start_worker() -> None:
    """Make this forked worker differ from its siblings, and collect garbage again."""
    _reseed_random()
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


def _find_seeded_by_system() -> Iterator[Any]:
    """Find the generators, other than the global one, that were not given a seed: numpy takes 128 bits for it then.

    Looks through all objects, but for those of an earlier call, which are frozen by now.
    """
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None or not hasattr(numpy_random, "BitGenerator"):  # it may have failed to be imported
        return
    of_all = numpy_random.mtrand._rand._bit_generator
    for one in gc.get_objects():
        if issubclass(type(one), numpy_random.BitGenerator) and one is not of_all:  # a proxy's `__class__` may be code
            entropy = getattr(getattr(one, "seed_seq", None), "entropy", None)
            if isinstance(entropy, int) and entropy >> _LONGEST_SEED_BITS:
                yield one


def _reseed_random() -> None:
    """Reseed the generators of Python, numpy and torch from the system's entropy; of others those it had seeded."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(memoryview(os.urandom(32)).cast("I").tolist())  # an eighth of what `seed()` takes
    for generator in _seeded_by_system:
        generator.state = type(generator)().state
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):
        torch.default_generator.seed()  # torch.seed() would reach for the accelerators as well
