"""A lifeline: the process that holds its far end has died, so this one dies too, whatever it is doing.

A pipe whose write end only the client holds, never written to. The worker asks the kernel to send it SIGKILL when the
pipe changes (F_SETOWN, F_SETSIG, O_ASYNC), and the only change there can be is that the last writer is gone. So no
thread watches, a worker stuck in native code dies as surely as an idle one, and the death of the zygote, which is the
worker's parent, is no reason to die (as it would be with PR_SET_PDEATHSIG). Each worker has a pipe of its own, because
an open file has one owner.
"""

import fcntl
import os
import select
import signal


def create() -> tuple[int, int]:
    """Return (held, given): keep the first for as long as the worker may live, give the second to the worker."""
    given, held = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    return held, given


def hold(given: int) -> None:
    """Tie this process to the lifeline `given`; it stays open until the process ends."""
    fcntl.fcntl(given, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(given, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(given, fcntl.F_SETFL, fcntl.fcntl(given, fcntl.F_GETFL) | os.O_ASYNC)
    os.set_inheritable(given, False)
    if _is_cut(given):  # the far end went before the signal was armed
        os.kill(os.getpid(), signal.SIGKILL)


def _is_cut(given: int) -> bool:
    poll = select.poll()
    poll.register(given, 0)
    return bool(poll.poll(0))
