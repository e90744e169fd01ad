"""A test fork: shows whether workers of this zygote work, before anybody depends on one.

Some hazards only a child meets: a thread pool that waits for threads which were not copied, a device runtime that notes
it has been forked.
"""

import os
import signal
import sys
import traceback
from typing import NoReturn

from warmpool import threads

LIMIT_S = 10.0
_NUM_THREADS = 2
_NUM_ELEMENTS = 64_000  # torch splits an operation over threads from 32,768 on


def fork_and_check(limits: threads.Limits, limit_s: float = LIMIT_S) -> str | None:
    """Return why workers of this process would not work, or None when one of them did. Raises OSError if it cannot."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.setitimer(signal.ITIMER_REAL, limit_s)  # ends the worker even if this process is gone by then
        _report(limits, writer)
    os.close(writer)
    with open(reader, "rb") as report:
        why = report.read().decode()
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGALRM:
        why = f"it hung and was ended after {limit_s} s"
    elif code != 0:
        why = f"it ended with status {code}"
    return f"a worker was forked as a test, and {why}" if why else None


def _report(limits: threads.Limits, writer: int) -> NoReturn:
    try:
        os.write(writer, (check(limits) or "").encode())
    except BaseException as error:
        traceback.print_exc()
        os.write(writer, f"it failed with {type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


def check(limits: threads.Limits) -> str | None:
    """Use, in a forked worker, what breaks in forked workers; return what is wrong, hang, die, or return None."""
    torch = sys.modules.get("torch")
    in_bad_fork = getattr(getattr(torch, "cuda", None), "_is_in_bad_fork", None)
    if in_bad_fork is not None and in_bad_fork():
        return "CUDA had been touched before the fork"
    limits.set(threads.plan({}, _NUM_THREADS))
    if torch is not None and hasattr(torch, "ones"):
        torch.ones(_NUM_ELEMENTS).add_(1).double().sum()
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "ones"):
        numpy.ones((256, 256)) @ numpy.ones((256, 256))
    return None
